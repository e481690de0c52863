package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

const (
	manifestName = "MANIFEST.json"
	configName   = "config.yaml"
	encoderName  = "encoder.json"
	denseName    = "dense.bin"
	warmupName   = "warmup.tfrecord"
	deltaName    = "delta.bin"

	formatName    = "wdlrun model"
	formatVersion = 3
	sumPrefix     = "{\n  \"checksum\": \"xxh3-64:" // followed by sixteen digits

	firstTable  = 3 // index in the files of a manifest
	maxManifest = 16 << 20
	maxEncoder  = 1 << 30
	maxWarmup   = 64 << 20
	maxTables   = 4096
	maxRows     = 1<<32 - 1
	maxName     = 128 // bytes of a model's name
	maxLineage  = 64  // bytes
	maxOffsets  = 1 << 16
	align       = 64 // of sections of tables

	tableSections = 2 // sections of a table
)

// Manifest describes the contents of a model version.
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

	Taken int64  `json:"taken,omitempty"` // when the training had done the step, Unix nanoseconds; 0: unknown
	Delta *Delta `json:"delta,omitempty"` // nil: the version is complete

	Lineage  string   `json:"lineage,omitempty"`  // id of the training that published it; its resumed jobs keep it
	Offsets  []Offset `json:"offsets,omitempty"`  // of the stream: where records that are not in the model begin
	Rollback *int64   `json:"rollback,omitempty"` // the version whose rows a rollback published as this one
	Window   *Window  `json:"window,omitempty"`   // the predictions before it; nil: train.export.guard was disabled
}

// Window describes the predictions of a window of samples before the steps that learned from them.
type Window struct {
	Samples     int64    `json:"samples"`
	Positives   int64    `json:"positives"`
	LogLoss     float64  `json:"logloss"`
	BaseLogLoss float64  `json:"base_logloss"`
	BaseRate    float64  `json:"base_rate"`
	AUC         *float64 `json:"auc,omitempty"`
	Calibration *float64 `json:"calibration,omitempty"`
	Spread      float64  `json:"logloss_spread"`   // standard deviation of a sample's log-loss
	Reason      string   `json:"reason,omitempty"` // what the guard found bad before this version: of the hold that ended, or of a warning

	ByLabel *[2]LabelLoss `json:"by_label,omitempty"` // of negative and positive samples
}

// LabelLoss is the log-loss of the samples with one label.
type LabelLoss struct {
	Samples int64   `json:"samples"`
	LogLoss float64 `json:"logloss"`        // mean
	Spread  float64 `json:"logloss_spread"` // standard deviation
}

// Offset is a position in a partition of a topic.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"` // offset of the first record that is not in the model
}

// Delta describes the changes of an incomplete version.
type Delta struct {
	Previous int64 `json:"previous"` // the version that it changes
	Taken    int64 `json:"taken"`    // of that version
	Base     int64 `json:"base"`     // the latest complete version when it was written
}

// Output is the prediction for one label.
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
	Lines int64  `json:"lines"` // of the index
}

// sized reports whether the sizes are possible.
func (t *Table) sized() bool {
	return t.Rows >= 0 && t.Rows <= maxRows && t.Lines > 0 && t.Lines <= maxLines
}

func tableName(i int) string { return fmt.Sprintf("table-%04d.bin", i) }

// encode returns the contents of MANIFEST.json.
func (m *Manifest) encode() ([]byte, error) { return seal(m) }

// seal returns a struct as JSON that begins with a checksum.
func seal(x any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil {
		return nil, err
	}
	covered := append([]byte(`",`), b.Bytes()[1:]...) // without the opening brace
	text := append([]byte(sumPrefix+checkpoint.Sum(xxh3.Hash(covered)).String()), covered...)
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are possible", manifestName, len(text), maxManifest)
	}
	return text, nil
}

// unseal verifies the checksum of the output of seal.
func unseal(b []byte) error {
	n := len(sumPrefix)
	if len(b) < n+16 || string(b[:n]) != sumPrefix {
		return fmt.Errorf("offset 0: it does not start with its checksum: cut short, damaged or edited")
	}
	sum := checkpoint.Sum(xxh3.Hash(b[n+16:]))
	if got := string(b[n : n+16]); got != sum.String() {
		return fmt.Errorf("offset %d: the checksum of the text is %v, it contains %q: cut short, damaged or edited", n, sum, got)
	}
	return nil
}

// parseManifest is the inverse of encode. It checks the checksum first.
func parseManifest(b []byte) (*Manifest, error) {
	if err := unseal(b); err != nil {
		return nil, err
	}
	var v struct {
		Format        string `json:"format"`
		FormatVersion int    `json:"format_version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	if v.Format != formatName || v.FormatVersion != formatVersion {
		return nil, fmt.Errorf("it is %q version %d, this program reads %q version %d: export or publish the model again with this program", v.Format, v.FormatVersion, formatName, formatVersion)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check rejects a manifest that Write cannot have written.
func (m *Manifest) check() error {
	if m.Version < 0 || m.Step < 0 || checkName(m.Name) != nil || len(m.Tables) > maxTables || len(m.Outputs) == 0 {
		return fmt.Errorf("model %q version %d of step %d, %d tables, %d outputs", m.Name, m.Version, m.Step, len(m.Tables), len(m.Outputs))
	}
	if len(m.Lineage) > maxLineage || len(m.Offsets) > maxOffsets {
		return fmt.Errorf("a lineage of %d bytes, %d offsets", len(m.Lineage), len(m.Offsets))
	}
	if !slices.Contains(Precisions(), m.Rows) {
		return fmt.Errorf("rows %q are not one of %v", m.Rows, Precisions())
	}
	if d := m.Delta; d != nil && (d.Previous < 0 || d.Previous >= m.Version || d.Base < 0 || d.Base > d.Previous || m.Rows != Precisions()[float32s]) {
		return fmt.Errorf("version %d of %s rows changes %+v", m.Version, m.Rows, *d)
	}
	want := []string{configName, encoderName, denseName}
	if m.Delta != nil {
		want = []string{denseName, deltaName}
	}
	for i, t := range m.Tables {
		name := tableName(i)
		if m.Delta != nil {
			name = deltaName
		}
		if t.File != name || !t.sized() || t.Width < 1 {
			return fmt.Errorf("table %d: %+v", i, t)
		}
		if m.Delta == nil {
			want = append(want, t.File)
		}
	}
	if n := len(want); m.Delta == nil && len(m.Files) == n+1 && m.Files[n].Name == warmupName {
		want = append(want, warmupName)
	}
	if !slices.EqualFunc(m.Files, want, func(f file, name string) bool { return f.Name == name }) {
		return fmt.Errorf("%d files that are not %v", len(m.Files), want)
	}
	for i, f := range m.Files {
		sections := 1
		switch {
		case m.Delta != nil && f.Name == deltaName:
			sections = tableSections * len(m.Tables)
		case m.Delta == nil && i >= firstTable && i < firstTable+len(m.Tables):
			sections = tableSections
		}
		if limit := limitOf(f.Name); f.size() < 0 || f.size() > limit {
			return fmt.Errorf("file %s has %d bytes, at most %d are possible", f.Name, f.size(), limit)
		}
		if n := len(f.Sections); n != sections {
			return fmt.Errorf("file %s has %d sections", f.Name, n)
		}
	}
	return nil
}

// limitOf returns the maximum size of a file.
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

// checkName rejects names of models that are not valid directory names.
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

func readManifest(dir string) (*Manifest, error) {
	text, err := regular.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

// names returns the names of all files of a version, the manifest last.
func (m *Manifest) names() (all []string) {
	for _, f := range m.Files {
		all = append(all, f.Name)
	}
	return append(all, manifestName)
}
