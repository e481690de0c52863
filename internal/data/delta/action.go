package delta

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// action is one line of a commit, or one row of a checkpoint: one of its members is set.
type action struct {
	Add      *add      `json:"add"`
	Remove   *add      `json:"remove"`
	MetaData *metaData `json:"metaData"`
	Protocol *protocol `json:"protocol"`
}

// add is a file of the table, or one that is removed.
type add struct {
	Path            string             `json:"path"`
	PartitionValues map[string]*string `json:"partitionValues"`
	DeletionVector  *vector            `json:"deletionVector"`
}

// vector is a set of deleted rows.
type vector struct {
	StorageType    string `json:"storageType"`
	PathOrInlineDv string `json:"pathOrInlineDv"`
	Offset         *int32 `json:"offset"`
	Cardinality    int64  `json:"cardinality"`
}

// key identifies a file with its deleted rows.
func (a *add) key() string {
	v := a.DeletionVector
	if v == nil {
		return a.Path
	}
	key := a.Path + "\x00" + v.StorageType + v.PathOrInlineDv
	if v.Offset != nil {
		key += fmt.Sprint("@", *v.Offset)
	}
	return key
}

// protocol is what a reader must understand.
type protocol struct {
	MinReaderVersion int64    `json:"minReaderVersion"`
	ReaderFeatures   []string `json:"readerFeatures"`
}

// check returns the first feature that this package does not know.
func (p *protocol) check() error {
	if p.MinReaderVersion < 1 || p.MinReaderVersion > 3 {
		return unsupported(fmt.Sprintf("it needs version %d of its protocol, 1 to 3 are known", p.MinReaderVersion))
	}
	for _, f := range p.ReaderFeatures {
		switch f {
		case "columnMapping", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors":
		default:
			return unsupported(fmt.Sprintf("it needs the table feature %q, which is not supported", f))
		}
	}
	return nil
}

// metaData is the schema of a table.
type metaData struct {
	Format struct {
		Provider string `json:"provider"`
	} `json:"format"`
	SchemaString     string             `json:"schemaString"`
	PartitionColumns []string           `json:"partitionColumns"`
	Configuration    map[string]*string `json:"configuration"`
}

// structType is the type of a column with members.
type structType struct {
	Fields []struct {
		Name     string          `json:"name"`
		Type     json.RawMessage `json:"type"`
		Metadata struct {
			PhysicalName string `json:"delta.columnMapping.physicalName"`
		} `json:"metadata"`
	} `json:"fields"`
}

// columns adds the columns to a table, and returns the names of its partitions in the log.
func (m *metaData) columns(t *Table) (partitions []string, err error) {
	if p := m.Format.Provider; p != "parquet" && p != "" {
		return nil, unsupported("its files have the format " + p)
	}
	w := schemaWalk{partitions: map[string]string{}, columns: []Column{}}
	if mode := m.Configuration["delta.columnMapping.mode"]; mode != nil {
		switch *mode {
		case "name":
			w.mapped = true
		case "none":
		default:
			return nil, unsupported(fmt.Sprintf("it needs column mapping by %s, only mapping by name is supported", *mode))
		}
	}
	for _, name := range m.PartitionColumns {
		w.partitions[name] = ""
	}
	if err := w.walk(json.RawMessage(m.SchemaString), "", "", 0); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	t.Columns = w.columns
	for _, name := range m.PartitionColumns {
		if w.partitions[name] == "" {
			return nil, fmt.Errorf("its schema has no partition column %q", name)
		}
		partitions = append(partitions, w.partitions[name])
	}
	return partitions, nil
}

// schemaWalk finds the columns of a schema.
type schemaWalk struct {
	mapped     bool
	partitions map[string]string // name in the log
	columns    []Column
}

// walk adds the members of a struct, whose names follow name and in.
func (w *schemaWalk) walk(b json.RawMessage, name, in string, depth int) error {
	var s structType
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if depth > maxNesting {
		return fmt.Errorf("more than %d structs in one another", maxNesting)
	}
	for _, f := range s.Fields {
		physical := f.Name
		if w.mapped {
			physical = f.Metadata.PhysicalName
		}
		if f.Name == "" || physical == "" {
			return fmt.Errorf("the column %q has no name in the files", f.Name)
		}
		if _, is := w.partitions[f.Name]; is && depth == 0 {
			w.partitions[f.Name] = physical
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(string(f.Type)), "{") {
			var kind struct {
				Type json.RawMessage `json:"type"`
			}
			if err := json.Unmarshal(f.Type, &kind); err != nil {
				return err
			}
			if string(kind.Type) == `"struct"` {
				if err := w.walk(f.Type, name+f.Name+".", in+physical+".", depth+1); err != nil {
					return err
				}
				continue
			}
		}
		if len(w.columns) == maxColumns {
			return fmt.Errorf("more than %d columns", maxColumns)
		}
		w.columns = append(w.columns, Column{name + f.Name, in + physical})
	}
	return nil
}

// in returns the path of a file: the log contains a URL, usually relative to the table.
func (a *add) in(dir string) (string, error) {
	path, err := url.PathUnescape(a.Path)
	if err != nil {
		return "", fmt.Errorf("the path %q is not a URL: %w", a.Path, err)
	}
	if scheme, rest, ok := strings.Cut(path, ":/"); ok && !strings.Contains(scheme, "/") {
		if scheme != "file" {
			return "", unsupported("the file " + path + " is in another store")
		}
		path = "/" + strings.TrimLeft(rest, "/")
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("the path %q leads out of the table", a.Path)
	}
	return filepath.Join(dir, path), nil
}
