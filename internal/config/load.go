package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"github.com/goccy/go-yaml/ast"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

//go:embed adult.yaml
var adult []byte

// Default returns the configuration of the embedded example, UCI Adult.
func Default() *Config {
	c, err := Parse("adult.yaml", adult)
	if err != nil {
		panic(err) // the embedded file is part of the program
	}
	return c
}

// Load reads and parses a file. Paths of data are not changed: relative paths are relative to
// the working directory.
func Load(path string) (*Config, error) {
	b, err := regular.ReadFile(path, MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("config: %w (`wdlrun init -data FILE` writes one for your files)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, b)
}

// Parse parses a configuration; faults contain name. An error is always an *Error.
func Parse(name string, b []byte) (*Config, error) {
	return parsed(&decoder{file: name}, b)
}

// ParseUnlabelled is Parse for data whose labels are not read: data.fields need not have
// them.
func ParseUnlabelled(name string, b []byte) (*Config, error) {
	return parsed(&decoder{file: name, unlabelled: true}, b)
}

// ParseSaved parses a configuration that an earlier version may have saved. It ignores keys
// that have been deleted since.
func ParseSaved(name string, b []byte) (*Config, error) {
	return parsed(&decoder{file: name, saved: true}, b)
}

// Draft is Load for a file whose faults settings may mend: it checks the keys and the types of values only. Call
// SetAll, which checks the result.
func Draft(path string) (*Config, error) {
	b, err := regular.ReadFile(path, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return parsed(&decoder{file: path, draft: true}, b)
}

func parsed(d *decoder, b []byte) (*Config, error) {
	d.schema, d.place = newGrammar(), map[string]place{}
	c := new(Config)
	if root := d.document(b); root != nil {
		d.decode(root, c)
	}
	if d.saved {
		c.restoreStrategies()
	}
	if d.readable && !d.draft {
		d.check(c)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// restoreStrategies replaces replicated, a strategy of earlier versions that gave the bits of rows.
func (c *Config) restoreStrategies() {
	for i := range c.Tables {
		if t := &c.Tables[i]; t.Strategy == "replicated" {
			t.Strategy = "rows"
		}
	}
}

// Validate returns every fault of a Config as an *Error without lines, or nil.
func (c *Config) Validate() error {
	d := &decoder{schema: newGrammar(), place: map[string]place{}}
	d.check(c)
	return d.err()
}

// decode fills c from the document.
func (d *decoder) decode(root ast.Node, c *Config) {
	if s, ok := scalarOf(root); ok && s.kind == "null" {
		return
	}
	d.value(root, reflect.ValueOf(c).Elem(), "")
}

// check adds every fault of a decoded Config: first the faults of single values, then the faults of
// combinations.
func (d *decoder) check(c *Config) {
	d.decoded = len(d.faults)
	d.schema.walk(reflect.ValueOf(c).Elem(), "", key{}, d.checkValue)
	d.decoded = len(d.faults)
	full := c.Clone()
	full.Fill()
	k := checker{d, c, full, map[string]int{}}
	k.source()
	k.holdOut()
	k.follow()
	k.registry()
	k.label()
	k.features()
	k.crosses()
	k.names()
	k.renamed()
	k.tables()
	k.model()
	k.train()
	k.schedule()
}
