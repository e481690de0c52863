package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxManifest bounds the size of the manifest. Larger data belongs in a section.
const maxManifest = 16 << 20

// Limits of File.Hosts.
const (
	maxHosts = 64
	maxHost  = 256 // bytes of a name
)

// sumPrefix is the beginning of every manifest of every version; sixteen digits follow.
const sumPrefix = "{\n  \"checksum\": \"xxh3-64:"

// Manifest describes the content of a checkpoint.
type Manifest struct {
	FormatVersion int       `json:"format_version"` // Commit sets it
	Step          int64     `json:"step"`
	WorldSize     int       `json:"world_size"` // number of ranks that wrote it; Commit sets it to len(Files)
	Time          time.Time `json:"time"`       // time of the commit; zero: now
	// Run is the id of the run that wrote the checkpoint, see RunID. It is empty if the caller
	// set none, and in checkpoints of earlier releases.
	Run string `json:"run,omitempty"`
	// Base is the base of an incremental checkpoint; nil for a full one.
	Base *Link `json:"base,omitempty"`
	// Meta holds data of the caller, which is not interpreted: configuration, data cursor, …
	Meta  map[string]json.RawMessage `json:"meta,omitempty"`
	Files []File                     `json:"files"` // one per part, in order
}

// Link identifies an earlier checkpoint in the same root.
type Link struct {
	Step     int64 `json:"step"`
	Checksum Sum   `json:"checksum"` // first checksum of its manifest; Commit sets it
}

// check rejects a manifest that Commit does not write.
func (m *Manifest) check() error {
	if err := checkPlace(m.Step, 0, len(m.Files)); err != nil {
		return err
	}
	if m.WorldSize != len(m.Files) {
		return fmt.Errorf("world size %d with %d files", m.WorldSize, len(m.Files))
	}
	if b := m.Base; b != nil && (b.Step < 0 || b.Step >= m.Step) {
		return fmt.Errorf("step %d builds upon step %d, which is not before it", m.Step, b.Step)
	}
	if m.Run != "" {
		if err := checkRun(m.Run); err != nil {
			return err
		}
	}
	for i, f := range m.Files {
		if want := partName(i, len(m.Files)); f.Name != want {
			return fmt.Errorf("file %d is %q, expected %q", i, f.Name, want)
		}
		if len(f.Hosts) > maxHosts || slices.ContainsFunc(f.Hosts, func(h string) bool { return h == "" || len(h) > maxHost }) {
			return fmt.Errorf("file %s is on %d hosts; at most %d with names of at most %d bytes are allowed", f.Name, len(f.Hosts), maxHosts, maxHost)
		}
		if f.Size < headSize+4+tailSize || f.Sections < 0 || f.Sections > maxSections {
			return fmt.Errorf("file %s of %d bytes and %d sections", f.Name, f.Size, f.Sections)
		}
	}
	return nil
}

// encode returns the contents of MANIFEST.json.
func (m *Manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // Meta must not be changed
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

// parseManifest is the inverse of encode. It checks the checksum, then the version, then the
// rest.
func parseManifest(b []byte) (m *Manifest, sum Sum, err error) {
	n := len(sumPrefix)
	if len(b) < n+16 || string(b[:n]) != sumPrefix {
		return nil, 0, fmt.Errorf("offset 0: does not start with its checksum: cut short, damaged or edited")
	}
	sum = Sum(xxh3.Hash(b[n+16:]))
	if got := string(b[n : n+16]); got != sum.String() {
		return nil, 0, fmt.Errorf("offset %d: checksum of the text after it is %v, it contains %q: cut short, damaged or edited", n, sum, got)
	}
	var v struct {
		FormatVersion int64 `json:"format_version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, 0, err
	}
	if v.FormatVersion < 1 || v.FormatVersion > formatVersion {
		return nil, 0, newer("format_version", v.FormatVersion, formatVersion)
	}
	m = new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, 0, err
	}
	return m, sum, m.check()
}

// readManifest reads the manifest in a directory.
func readManifest(dir string) (*Manifest, Sum, error) {
	b, err := regular.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return nil, 0, err
	}
	return parseManifest(b)
}
