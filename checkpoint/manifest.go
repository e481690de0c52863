package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/zeebo/xxh3"
)

// maxManifest bounds the manifest. What is larger belongs into a section.
const maxManifest = 16 << 20

// sumPrefix is how every manifest of every version begins; sixteen digits follow.
const sumPrefix = "{\n  \"checksum\": \"xxh3-64:"

// Manifest says what belongs to a checkpoint.
type Manifest struct {
	FormatVersion int       `json:"format_version"` // Commit sets it
	Step          int64     `json:"step"`
	WorldSize     int       `json:"world_size"` // how many ranks wrote it; Commit sets it to len(Files)
	Time          time.Time `json:"time"`       // of the commit; zero is now
	// Meta is the caller's own, kept as it is: configuration, data cursor, …
	Meta  map[string]json.RawMessage `json:"meta,omitempty"`
	Files []File                     `json:"files"` // one per part, in order
}

// check refuses a manifest that no Commit can have written, or should write.
func (m *Manifest) check() error {
	if err := checkPlace(m.Step, 0, len(m.Files)); err != nil {
		return err
	}
	if m.WorldSize != len(m.Files) {
		return fmt.Errorf("world size %d with %d files", m.WorldSize, len(m.Files))
	}
	for i, f := range m.Files {
		if want := partName(i, len(m.Files)); f.Name != want {
			return fmt.Errorf("file %d is %q, expected %q", i, f.Name, want)
		}
		if f.Size < headSize+4+tailSize || f.Sections < 0 || f.Sections > maxSections {
			return fmt.Errorf("file %s of %d bytes and %d sections", f.Name, f.Size, f.Sections)
		}
	}
	return nil
}

// encode is the text of MANIFEST.json.
func (m *Manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // Meta is the caller's and stays as it is
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	covered := append([]byte(`",`), b.Bytes()[1:]...) // without the opening brace
	text := []byte(sumPrefix + Sum(xxh3.Hash(covered)).String())
	text = append(text, covered...)
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed: put large metadata into a section", len(text), maxManifest)
	}
	return text, nil
}

// parseManifest is the inverse of encode. The checksum comes first, then the
// version, then all the rest.
func parseManifest(b []byte) (*Manifest, error) {
	n := len(sumPrefix)
	if len(b) < n+16 || string(b[:n]) != sumPrefix {
		return nil, fmt.Errorf("offset 0: does not start with its checksum: cut short, damaged or edited")
	}
	got, want := string(b[n:n+16]), Sum(xxh3.Hash(b[n+16:])).String()
	if got != want {
		return nil, fmt.Errorf("offset %d: checksum of the text after it is %s, it says %q: cut short, damaged or edited", n, want, got)
	}
	var v struct {
		FormatVersion int64 `json:"format_version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	if v.FormatVersion < 1 || v.FormatVersion > Version {
		return nil, newer("format_version", v.FormatVersion)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

func readManifest(path string) (*Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened to read: nothing can be lost
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("more than %d bytes", maxManifest)
	}
	return parseManifest(b)
}
