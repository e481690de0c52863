package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// LoadIndex reads a feature index from a file made by data index, or from a checkpoint.
func LoadIndex(path string) (*encode.Encoder, error) {
	path = record.LocalPath(path)
	info, err := os.Stat(path)
	var b []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("index: %s: %w; wdlrun data index makes one", path, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("index: %w", err)
	case info.IsDir():
		from, _, err := checkpoint.Resolve(path)
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		b, err = save.Read(from, save.SectionEncoder)
		if err != nil {
			return nil, err
		}
	default:
		if b, err = regular.ReadFile(path, maxShare); err != nil {
			return nil, fmt.Errorf("index: %w: is it a feature index?", err)
		}
	}
	e, err := encode.LoadEncoder(b)
	if err != nil {
		return nil, fmt.Errorf("index: %s: %w", path, err)
	}
	return e, nil
}

// indexed returns the encoder of a new training whose configuration names a feature index.
// Rank 0 reads the file for all ranks.
func (in *Input) indexed() (*encode.Encoder, error) {
	var b []byte
	fault, err := save.First(in.Comm, in.Rec, func() error {
		e, err := LoadIndex(in.Config.Data.Index)
		if err == nil {
			e, err = e.For(SchemaOf(in.Config))
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
		return nil, fmt.Errorf("data.index %s: %s", in.Config.Data.Index, fault)
	}
	if b, err = collective.BroadcastBytes(in.Comm, b, 0, maxShare); err != nil {
		return nil, err
	}
	return encode.LoadEncoder(b)
}

// CheckIndexed returns an error if a new training cannot use the index that it names.
func CheckIndexed(c *config.Config) error {
	if c.Data.Index == "" {
		if names := SchemaOf(c).NeedsFit(); c.Data.Follow.On && len(names) > 0 {
			return fmt.Errorf("data.follow: a stream has no whole to take statistics from, which the features %s need: make a feature index (wdlrun data index) and name it in data.index, or continue a model with -resume",
				strings.Join(names, ", "))
		}
		return nil
	}
	e, err := LoadIndex(c.Data.Index)
	if err == nil {
		_, err = e.For(SchemaOf(c))
	}
	return err
}
