package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// IndexOptions are the options of a feature index. Only rank 0's are used.
type IndexOptions struct {
	Config *config.Config // nil: config.Default
	Data   []string       // files; none: the training data of the configuration
	Out    string         // file to write, which must not exist
	Peers
	Warn func(line string)
}

// IndexResult is the result of indexing and the JSON line of `wdlrun data index --json`.
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

// Indexing makes a feature index on one rank of a group.
type Indexing struct {
	*run
	opt IndexOptions
}

// NewIndexing prepares the indexing on a group.
func NewIndexing(comm *collective.Comm, rec *trace.Recorder, opt IndexOptions) Indexing {
	x := Indexing{&run{}, opt}
	x.init(comm, rec, Options{Config: opt.Config, Peers: opt.Peers, Warn: opt.Warn})
	return x
}

// filled returns the filled configuration of the data to index.
func (o IndexOptions) filled() (*config.Config, error) {
	c, _, err := Options{Config: o.Config}.config(nil)
	if err != nil {
		return nil, err
	}
	if len(o.Data) > 0 {
		c.Data.Train = o.Data
	}
	c.Data.Test, c.Data.Valid, c.Data.Index, c.Data.Follow = nil, nil, "", schema.Follow{} // a stream is indexed as far as it exists now
	c.Train.WithoutValidation()
	c.Fill()
	return c, nil
}

// checkOut returns an error if the file to write exists on this host.
func (o IndexOptions) checkOut() error {
	if _, err := os.Lstat(o.Out); err == nil {
		return fmt.Errorf("index: %s exists; remove it or choose another name with -out", o.Out)
	}
	return nil
}

// CheckIndex finds the faults that one process can find before any rank starts.
func CheckIndex(o IndexOptions) error {
	if o.Out == "" {
		return errors.New("index: -out FILE is required: the file to write")
	}
	if !o.Away { // else the host of rank 0 may have another file system
		if err := o.checkOut(); err != nil {
			return err
		}
	}
	c, err := o.filled()
	if err != nil {
		return err
	}
	if s := input.SchemaOf(c); len(s.NeedsFit()) == 0 {
		return errors.New("index: no feature takes anything from the data: encode: vocabulary, quantile, standardise and the encodings of dates do")
	}
	if c.Data.EachHost() && o.Away {
		return nil
	}
	_, err = input.Open(input.Setup{Config: c})
	return err
}

// Run reads the data once, shared by the ranks, and writes the index from rank
// 0. Its bytes are the same for any number of ranks.
func (x Indexing) Run(ctx context.Context) (res IndexResult, err error) {
	if err := x.brief(); err != nil {
		return res, err
	}
	if err := x.openVolumes(); err != nil {
		return res, err
	}
	defer x.volumes.Close()
	if x.in, err = input.Open(x.inputSetup()); err != nil {
		return res, err
	}
	fit := encode.NewFit(input.SchemaOf(x.config))
	if err := x.in.Scan(ctx, x.in.Train, fit); err != nil {
		return res, err
	}
	x.Rec.Enter(trace.Plan)
	if err := x.in.Fit(fit); err != nil {
		return res, err
	}
	b, err := x.in.Encoder.Marshal()
	if err != nil {
		return res, err
	}
	fault, err := save.First(x.Comm, x.Rec, func() error { return writeNew(x.opt.Out, b) })
	if err != nil {
		return res, err
	}
	if fault != "" {
		return res, fmt.Errorf("index: %s", fault)
	}
	bad, _ := x.in.Train.Bad()
	return IndexResult{
		WorldSize: x.Comm.Size(), Data: x.in.Train.Names(), Records: x.in.Train.Rows(data.All), Bad: bad,
		Seconds: math.Round(time.Since(x.began).Seconds()*1e3) / 1e3, File: x.opt.Out, Bytes: int64(len(b)), Vocabularies: fit.Vocabularies(),
	}, nil
}

// brief sends the configuration of rank 0 to all ranks.
func (x Indexing) brief() error {
	var b []byte
	if x.Comm.Rank() == 0 {
		if err := x.opt.checkOut(); err != nil {
			return permanent(err)
		}
		c, err := x.opt.filled()
		if err != nil {
			return err
		}
		b = c.YAML()
	}
	b, err := collective.BroadcastBytes(x.Comm, b, 0, maxBrief)
	if err != nil {
		return err
	}
	if x.config, err = config.Parse("configuration of rank 0", b); err != nil {
		return err
	}
	x.config.Fill()
	return nil
}

// writeNew writes a new file, completely or not at all. It fails if path exists.
func writeNew(path string, b []byte) error {
	tmp := path + ".part"
	err := regular.WriteFile(tmp, b, 0o644)
	if err == nil {
		err = os.Link(tmp, path) // unlike a rename, a link never replaces a file
	}
	os.Remove(tmp)
	return err
}
