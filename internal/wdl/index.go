package wdl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// IndexOptions say what a feature index is made of. Rank 0's count.
type IndexOptions struct {
	Config *config.Config // nil: config.Default
	Set    []string       // settings that replace the configuration's
	Data   []string       // files; none: the training data of the configuration
	Out    string         // file to write, which must not exist
	Warn   func(line string)
}

// IndexResult is what was indexed, and the JSON line of `wdlrun data index
// --json`.
type IndexResult struct {
	WorldSize    int                     `json:"world_size"`
	Data         []string                `json:"data"`
	Records      int64                   `json:"records"`
	Bad          int64                   `json:"bad"`
	Seconds      float64                 `json:"seconds"`
	File         string                  `json:"file"`
	Bytes        int64                   `json:"bytes"`
	Vocabularies []encode.VocabularySize `json:"vocabularies"`
}

// Indexing is one rank's share of making a feature index.
type Indexing struct {
	*Job
	opt IndexOptions
}

// NewIndexing prepares the work on a group.
func NewIndexing(comm *collective.Comm, rec *trace.Recorder, opt IndexOptions) Indexing {
	return Indexing{NewJob(comm, rec, Options{Config: opt.Config, Set: opt.Set, Warn: opt.Warn}), opt}
}

// settle fills the configuration that says what to index.
func (o IndexOptions) settle() (*config.Config, error) {
	c, _, err := Options{Config: o.Config, Set: o.Set}.config(nil)
	if err != nil {
		return nil, err
	}
	if len(o.Data) > 0 {
		c.Data.Train = o.Data
	}
	c.Data.Test, c.Data.Valid, c.Data.Index, c.Data.Follow = nil, nil, "", schema.Follow{} // what is there now
	// What watches validation data has none to watch here.
	c.Train.EarlyStop, c.Train.Schedule, c.Train.EvalSteps = config.EarlyStop{}, config.Schedule{}, 0
	c.Fill()
	return c, nil
}

// CheckIndex finds the faults that one process can find.
func CheckIndex(o IndexOptions) error {
	if o.Out == "" {
		return errors.New("wdl: index: which file is to be written? -out FILE")
	}
	if _, err := os.Lstat(o.Out); err == nil {
		return fmt.Errorf("wdl: index: %s exists; remove it or choose another name with -out", o.Out)
	}
	c, err := o.settle()
	if err != nil {
		return err
	}
	if s := schemaOf(c); len(s.NeedsFit()) == 0 {
		return errors.New("wdl: index: no feature takes anything from the data: encode: vocabulary, quantile, standardise and those of dates do")
	}
	_, err = openInputs(c, nil)
	return err
}

// Run reads the data once, shared by the ranks, and writes the index from rank
// 0. Its bytes are the same for any number of ranks.
func (x Indexing) Run(ctx context.Context) (res IndexResult, err error) {
	j := &x.job
	if err := x.brief(); err != nil {
		return res, err
	}
	if j.inputs, err = openInputs(j.config, nil); err != nil {
		return res, err
	}
	fit := encode.NewFit(schemaOf(j.config))
	if err := j.scan(ctx, j.train, fit); err != nil {
		return res, err
	}
	j.rec.Enter(trace.Plan)
	e, err := encode.NewEncoder(fit)
	if err != nil {
		return res, err
	}
	j.encoder = e
	j.warnOfFit(fit)
	b, err := e.Marshal()
	if err != nil {
		return res, err
	}
	fault, err := j.first(func() error { return writeNew(x.opt.Out, b) })
	if err != nil {
		return res, err
	}
	if fault != "" {
		return res, fmt.Errorf("wdl: index: %s", fault)
	}
	bad, _ := j.train.Bad()
	return IndexResult{
		WorldSize: j.comm.Size(), Data: j.train.Names(), Records: j.train.Rows(data.All), Bad: bad,
		Seconds: math.Round(time.Since(j.began).Seconds()*1e3) / 1e3, File: x.opt.Out, Bytes: int64(len(b)), Vocabularies: fit.Vocabularies(),
	}, nil
}

// brief hands rank 0's configuration round.
func (x Indexing) brief() error {
	j := &x.job
	var b []byte
	if j.comm.Rank() == 0 {
		c, err := x.opt.settle()
		if err != nil {
			return err
		}
		b = c.YAML()
	}
	b, err := collective.BroadcastBytes(j.comm, b, 0, maxBrief)
	if err != nil {
		return err
	}
	if j.config, err = config.Parse("configuration of rank 0", b); err != nil {
		return err
	}
	j.config.Fill()
	return nil
}

// writeNew writes a file that does not exist yet, whole or not at all.
func writeNew(path string, b []byte) error {
	tmp := path + ".part"
	err := os.WriteFile(tmp, b, 0o644)
	if err == nil {
		err = os.Link(tmp, path) // unlike a renaming, it replaces nothing
	}
	os.Remove(tmp)
	return err
}

// schemaOf is what a configuration says of the fields.
func schemaOf(c *config.Config) schema.Schema {
	return schema.Schema{Label: c.Label, Labels: c.Labels, Features: c.Features, Crosses: c.Crosses}
}

// LoadIndex reads a feature index: from a file that data index made, or from
// the checkpoint of a model, which has one in it.
func LoadIndex(path string) (*encode.Encoder, error) {
	path = record.LocalPath(path)
	info, err := os.Stat(path)
	var b []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("wdl: index: %s: %w; wdlrun data index makes one", path, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("wdl: index: %w", err)
	case info.IsDir():
		from, _, err := checkpoint.Resolve(path)
		if err != nil {
			return nil, fmt.Errorf("wdl: index: %w", err)
		}
		b, err = save.Read(from, save.SectionEncoder)
		if err != nil {
			return nil, err
		}
	default:
		if b, err = regular.ReadFile(path, maxShare); err != nil {
			return nil, fmt.Errorf("wdl: index: %w: is it a feature index?", err)
		}
	}
	e, err := encode.LoadEncoder(b)
	if err != nil {
		return nil, fmt.Errorf("wdl: index: %s: %w", path, err)
	}
	return e, nil
}

// indexed is the encoder of a new training whose configuration names a feature
// index. Rank 0 reads the file for all.
func (j *job) indexed() (*encode.Encoder, error) {
	var b []byte
	fault, err := j.first(func() error {
		e, err := LoadIndex(j.config.Data.Index)
		if err == nil {
			e, err = e.For(schemaOf(j.config))
		}
		if err == nil {
			b, err = e.Marshal()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if fault != "" {
		return nil, fmt.Errorf("data.index %s: %s", j.config.Data.Index, fault)
	}
	if b, err = collective.BroadcastBytes(j.comm, b, 0, maxShare); err != nil {
		return nil, err
	}
	return encode.LoadEncoder(b)
}

// checkIndexed finds what is wrong with the index that a new training names.
func checkIndexed(c *config.Config) error {
	if c.Data.Index == "" {
		if names := schemaOf(c).NeedsFit(); c.Data.Follow.On && len(names) > 0 {
			return fmt.Errorf("wdl: data.follow: a stream has no whole to take statistics from, which the features %s need: make a feature index (wdlrun data index) and name it in data.index, or continue a model with -resume",
				strings.Join(names, ", "))
		}
		return nil
	}
	e, err := LoadIndex(c.Data.Index)
	if err == nil {
		_, err = e.For(schemaOf(c))
	}
	return err
}
