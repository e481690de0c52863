package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// Source is a trained model.
type Source struct {
	Checkpoint *checkpoint.Checkpoint
	Config     []byte // YAML, as in the checkpoint
	Encoder    []byte // JSON, as in the checkpoint

	// Records, if not nil, is where the records to warm up and to check with come from: its Train. The
	// default is the training data of the configuration, which may not be there any more.
	Records *schema.Source
}

// records returns the source of the records to warm up and to check with.
func (s *Source) records(c *config.Config) schema.Source {
	if s.Records != nil {
		return *s.Records
	}
	return c.Data
}

// Options configure Write.
type Options struct {
	Out     string // directory of models
	Name    string
	Version int64  // −1 for the step, or, if a version is as high, for the number after the highest
	Rows    string // one of Precisions; "" for float32

	// Warn, if not nil, is called with the reason if the model has no warm-up records, and if
	// the version is not the step or not the highest, which servers load.
	Warn func(line string)

	disk disk // nil for the operating system's
}

// Result describes the output of Write.
type Result struct {
	Dir      string
	Manifest Manifest
	Bytes    int64 // of all files except the manifest
}

// Write writes a model as OUT/NAME/VERSION. The version must not exist. After an error
// nothing is visible, with one exception: if the last fsync fails, the version is visible
// and may not survive a power failure.
func Write(ctx context.Context, src Source, opt Options) (Result, error) {
	if opt.disk == nil {
		opt.disk = system{}
	}
	if err := checkName(opt.Name); err != nil {
		return Result{}, fmt.Errorf("export: write: %w", err)
	}
	root := filepath.Join(opt.Out, opt.Name)
	res, err := writeVersion(ctx, src, opt, root)
	if err != nil {
		return Result{}, fmt.Errorf("export: write: %s: %w; no model was written", cmp.Or(res.Dir, root), err)
	}
	return res, nil
}

// number returns the version to write. It is an error if the folder is on hold: servers would load
// the version in place of the one that a rollback chose. Without a given number, it is also an error if
// a version has the model: exports by cron write it once.
func (o *Options) number(root string, from *checkpoint.Checkpoint, as precision) (int64, error) {
	if h := ledger.ReadHold(root); h != nil {
		return 0, fmt.Errorf("the folder is on hold (%s): wdlrun publish %s -release", h.Reason, root)
	}
	highest, err := highestIn(root)
	if err != nil {
		return 0, err
	}
	warn := o.Warn
	if warn == nil {
		warn = func(string) {}
	}
	if o.Version >= 0 {
		if o.Version < highest {
			warn(fmt.Sprintf("version %d of %s is higher than %d: servers that load the latest version keep it", highest, root, o.Version))
		}
		return o.Version, nil
	}
	step := from.Step()
	n, err := ledger.Next(step, highest)
	if err != nil {
		return 0, err
	}
	has, err := versionOf(root, from, as)
	switch {
	case err != nil:
		return 0, err
	case has >= 0:
		return 0, fmt.Errorf("the model of step %d of this run is already published as version %d; to write it again, give a number, such as -version %d", step, has, n)
	case n != step:
		warn(fmt.Sprintf("%s has version %d, so that this version, of step %d, is %d", root, highest, step, n))
	}
	return n, nil
}

// versionOf returns the version that has the model of a checkpoint with rows of a precision, −1 for none. A version
// of unknown origin, as of earlier releases, has it if its number is the step.
func versionOf(root string, from *checkpoint.Checkpoint, as precision) (int64, error) {
	run := from.Manifest().Run
	f, all, err := readFolder(root, func(string, *Manifest) error { return nil })
	if err != nil {
		return -1, err
	}
	for _, n := range f.Numbers() {
		m, of := all[n], f.Versions[n].Lineage
		if m == nil || m.Step != from.Step() || m.Rows != Precisions()[as] {
			continue
		}
		if run != "" && of == run || (run == "" || of == "") && n == m.Step {
			return n, nil
		}
	}
	return -1, nil
}

func writeVersion(ctx context.Context, src Source, opt Options, root string) (res Result, err error) {
	as, err := precisionOf(opt.Rows)
	if err != nil {
		return res, err
	}
	if err := makeDirs(opt.disk, root); err != nil {
		return res, err
	}
	unlock, err := lock(root)
	if err != nil {
		return res, err
	}
	defer unlock()
	if opt.Version, err = opt.number(root, src.Checkpoint, as); err != nil {
		return res, err
	}
	res.Dir = versionDir(root, opt.Version)
	if _, err := os.Lstat(res.Dir); !errors.Is(err, fs.ErrNotExist) {
		return res, errors.New("this version exists: give another one with -version, or remove it")
	}
	if err := removeTemporary(root, tmpPrefix, publishPrefix, partPrefix); err != nil {
		return res, err
	}
	tmp := filepath.Join(root, tmpPrefix+strconv.FormatInt(opt.Version, 10))
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return res, err
	}
	defer os.RemoveAll(tmp) // does nothing after the rename
	if res.Manifest, err = writeFiles(ctx, src, opt, tmp, as); err != nil {
		return res, err
	}
	for _, f := range res.Manifest.Files {
		res.Bytes += f.size()
	}
	if err := errors.Join(opt.disk.Sync(tmp), ctx.Err()); err != nil {
		return res, err
	}
	if err := opt.disk.Rename(tmp, res.Dir); err != nil {
		return res, err
	}
	return res, opt.disk.Sync(root)
}

// writeFiles writes the files of a model, the manifest last.
func writeFiles(ctx context.Context, src Source, opt Options, dir string, as precision) (m Manifest, err error) {
	c, e, l, err := parse(src.Config, src.Encoder)
	if err != nil {
		return m, err
	}
	p, err := step.NewParameters(c, l)
	if err == nil {
		err = p.Load(src.Checkpoint)
	}
	if err != nil {
		return m, err
	}
	m = Manifest{
		Format: formatName, FormatVersion: formatVersion, Name: opt.Name, Version: opt.Version,
		Step: src.Checkpoint.Step(), Run: src.Checkpoint.Manifest().Run, Rows: Precisions()[as],
		Inputs: inputs(c), Outputs: outputs(c), Tables: []Table{},
	}
	encoder, err := e.Marshal()
	if err != nil {
		return m, err
	}
	for _, x := range []struct {
		name  string
		write func(io.Writer) error
	}{{configName, content(c.YAML())}, {encoderName, content(encoder)}, {denseName, p.Save}} {
		f, err := whole(opt.disk, dir, x.name, x.write)
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
	}
	for i, of := range l.Tables {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		t, f, err := writeTable(opt.disk, dir, i, src.Checkpoint, of, as)
		if err != nil {
			return m, err
		}
		m.Tables, m.Files = append(m.Tables, t), append(m.Files, f)
	}
	if err := writeWarmup(ctx, src, c, opt, dir, &m); err != nil {
		return m, err
	}
	text, err := m.encode()
	if err != nil {
		return m, err
	}
	_, err = whole(opt.disk, dir, manifestName, content(text))
	return m, err
}

// writeWarmup writes warm-up records, if there are any.
func writeWarmup(ctx context.Context, src Source, c *config.Config, opt Options, dir string, m *Manifest) error {
	b, err := warmup(ctx, src.records(c), m.Inputs)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		f, err := whole(opt.disk, dir, warmupName, content(b))
		m.Files = append(m.Files, f)
		return err
	case src.Records != nil:
		return err
	case opt.Warn != nil:
		opt.Warn(fmt.Sprintf("the model has no %s, records to warm up with: %v; name files of records with -data", warmupName, err))
	}
	return nil
}
