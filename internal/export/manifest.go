package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
)

const (
	manifestName = "MANIFEST.json"
	configName   = "config.yaml"
	encoderName  = "encoder.json"
	denseName    = "dense.bin"
	warmupName   = "warmup.tfrecord"

	formatName    = "wdlrun model"
	formatVersion = 1
	sumPrefix     = "{\n  \"checksum\": \"xxh3-64:" // sixteen digits follow

	firstTable  = 3 // of the files of a manifest
	maxManifest = 16 << 20
	maxEncoder  = 1 << 30
	maxWarmup   = 64 << 20
	maxTables   = 4096
	maxRows     = 1<<32 - 1
	maxBits     = 31
	maxName     = 128 // bytes of a model's name
	align       = 64  // of sections of tables
)

// Manifest says what a model consists of.
type Manifest struct {
	Format        string `json:"format"`
	FormatVersion int    `json:"format_version"`
	Name          string `json:"name"`
	Version       int64  `json:"version"`
	Step          int64  `json:"step"`          // that the parameters are of
	Run           string `json:"run,omitempty"` // id of the run that trained it
	Rows          string `json:"rows"`          // one of Precisions

	Outputs []Output `json:"outputs"` // by label
	Inputs  []Input  `json:"inputs"`
	Tables  []Table  `json:"tables"`
	Files   []file   `json:"files"`
}

// Output is what a model predicts for one label.
type Output struct {
	Label string `json:"label"`
	Kind  string `json:"kind"` // probability, number or rate
}

// Input is one field of a record that the model reads.
type Input struct {
	Field    string   `json:"field"`
	Features []string `json:"features,omitempty"` // made of it
	Type     string   `json:"type"`               // number, integer (a 64-bit id), date or text
	List     bool     `json:"list,omitempty"`     // a record may have several values
}

// Table is one table of a model.
type Table struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Rows  int64  `json:"rows"`
	Width int    `json:"width"` // values of a row
	Bits  int    `json:"bits"`  // of the directory
}

func tableName(i int) string { return fmt.Sprintf("table-%04d.bin", i) }

// encode is the text of MANIFEST.json.
func (m *Manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	covered := append([]byte(`",`), b.Bytes()[1:]...) // without the opening brace
	text := append([]byte(sumPrefix+checkpoint.Sum(xxh3.Hash(covered)).String()), covered...)
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are possible", manifestName, len(text), maxManifest)
	}
	return text, nil
}

// parseManifest is the inverse of encode. It checks the checksum first.
func parseManifest(b []byte) (*Manifest, error) {
	n := len(sumPrefix)
	if len(b) < n+16 || string(b[:n]) != sumPrefix {
		return nil, fmt.Errorf("offset 0: it does not start with its checksum: cut short, damaged or edited")
	}
	sum := checkpoint.Sum(xxh3.Hash(b[n+16:]))
	if got := string(b[n : n+16]); got != sum.String() {
		return nil, fmt.Errorf("offset %d: the checksum of the text is %v, it says %q: cut short, damaged or edited", n, sum, got)
	}
	var v struct {
		Format        string `json:"format"`
		FormatVersion int    `json:"format_version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	if v.Format != formatName || v.FormatVersion != formatVersion {
		return nil, fmt.Errorf("it is %q version %d, this program reads %q version %d: use the program that wrote it", v.Format, v.FormatVersion, formatName, formatVersion)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check rejects a manifest that no Write can have written.
func (m *Manifest) check() error {
	if m.Version < 0 || m.Step < 0 || checkName(m.Name) != nil || len(m.Tables) > maxTables || len(m.Outputs) == 0 {
		return fmt.Errorf("model %q version %d of step %d, %d tables, %d outputs", m.Name, m.Version, m.Step, len(m.Tables), len(m.Outputs))
	}
	if !slices.Contains(Precisions(), m.Rows) {
		return fmt.Errorf("rows %q are not one of %v", m.Rows, Precisions())
	}
	want := []string{configName, encoderName, denseName}
	for i, t := range m.Tables {
		if t.File != tableName(i) || t.Rows < 0 || t.Rows > maxRows || t.Bits < 0 || t.Bits > maxBits || t.Width < 1 {
			return fmt.Errorf("table %d: %+v", i, t)
		}
		want = append(want, t.File)
	}
	if n := len(want); len(m.Files) == n+1 && m.Files[n].Name == warmupName {
		want = append(want, warmupName)
	}
	if !slices.EqualFunc(m.Files, want, func(f file, name string) bool { return f.Name == name }) {
		return fmt.Errorf("%d files that are not %v", len(m.Files), want)
	}
	for i, f := range m.Files {
		isTable := i >= firstTable && i < firstTable+len(m.Tables)
		if limit := limitOf(f.Name); f.size() < 0 || f.size() > limit {
			return fmt.Errorf("file %s has %d bytes, at most %d are possible", f.Name, f.size(), limit)
		}
		if n := len(f.Sections); isTable && n != 3 || !isTable && n != 1 {
			return fmt.Errorf("file %s has %d sections", f.Name, n)
		}
	}
	return nil
}

// limitOf is the largest size of a file.
func limitOf(name string) int64 {
	switch name {
	case configName:
		return config.MaxBytes
	case encoderName:
		return maxEncoder
	case denseName:
		return 8 << 30 // 2³⁰ floats and their names
	case warmupName:
		return maxWarmup
	}
	return 1 << 46
}

// checkName rejects names of models that are no names of directories.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '.' && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	}
	if !ok {
		return fmt.Errorf("the name %q: give 1 to %d letters, digits, underscores, dots and dashes, the first of them a letter, a digit or an underscore", name, maxName)
	}
	return nil
}
