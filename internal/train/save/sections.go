package save

import (
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
)

// Names of the sections of a checkpoint that do not hold parameters. Rank 0 writes them.
const (
	SectionConfig  = "config"  // YAML, the configuration in effect
	SectionEncoder = "encoder" // JSON, see encode.Encoder
	SectionCursor  = "cursor"  // JSON: the state of the training; Progress is a part of it
)

// ReadJSON decodes a section with JSON.
func ReadJSON(c *checkpoint.Checkpoint, section string, to any) error {
	b, err := Read(c, section)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

// Read reads a whole section into memory. Use it for small sections.
func Read(c *checkpoint.Checkpoint, section string) (b []byte, err error) {
	err = c.Read(section, func(r io.Reader) (err error) {
		b, err = io.ReadAll(r)
		return err
	})
	return b, err
}

// ReadConfig returns the configuration of a checkpoint, without defaults filled in.
func ReadConfig(c *checkpoint.Checkpoint) (*config.Config, error) {
	b, err := Read(c, SectionConfig)
	if err != nil {
		return nil, err
	}
	return config.ParseSaved(filepath.Join(c.Dir(), SectionConfig), b)
}

// FilledConfig is ReadConfig with the defaults in place of what is left out. It implements step.ConfigOf.
func FilledConfig(c *checkpoint.Checkpoint) (*config.Config, error) {
	was, err := ReadConfig(c)
	if err == nil {
		was.Fill()
	}
	return was, err
}
