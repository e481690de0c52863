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
	Sidecar  *sidecar  `json:"sidecar"`
}

// sidecar is a file with a part of a checkpoint.
type sidecar struct {
	Path string `json:"path"`
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
			ID           int32  `json:"delta.columnMapping.id"`
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
		case "id":
			w.mapped, w.physical = true, map[int32]string{}
		case "none":
		default:
			return nil, unsupported(fmt.Sprintf("it needs column mapping by %s, only mapping by name or id is supported", *mode))
		}
	}
	for _, name := range m.PartitionColumns {
		w.partitions[name] = ""
	}
	if err := w.walk(json.RawMessage(m.SchemaString), place{}); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	t.Columns, t.Physical = w.columns, w.physical
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
	physical   map[int32]string  // names in the files by id; nil: without ids
	partitions map[string]string // name in the log
	columns    []Column
}

// place is where a type is in a schema.
type place struct {
	name, in string // of the struct around it, with a point
	depth    int
	list     bool // in a list
}

// walk adds the members of a struct.
func (w *schemaWalk) walk(b json.RawMessage, at place) error {
	var s structType
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if at.depth > maxNesting {
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
		if w.physical != nil {
			if _, twice := w.physical[f.Metadata.ID]; twice || f.Metadata.ID == 0 {
				return fmt.Errorf("the column %q has no id, or that of another column", f.Name)
			}
			w.physical[f.Metadata.ID] = physical
		}
		if _, is := w.partitions[f.Name]; is && at.depth == 0 {
			w.partitions[f.Name] = physical
			continue
		}
		if err := w.member(f.Type, place{at.name + f.Name, at.in + physical, at.depth + 1, at.list}); err != nil {
			return err
		}
	}
	return nil
}

// member adds a member of a struct, or those in it, as package table does: members of structs,
// also in a list, and the keys and values of a map of plain values.
func (w *schemaWalk) member(b json.RawMessage, at place) error {
	kind, err := kindOf(b)
	if err != nil {
		return err
	}
	switch kind.Type {
	case "struct":
		return w.walk(b, place{at.name + ".", at.in + ".", at.depth, at.list})
	case "array":
		item, err := kindOf(kind.Element)
		if err == nil && item.Type == "struct" && !at.list {
			return w.walk(kind.Element, place{at.name + ".", at.in + ".", at.depth, true})
		}
		if err != nil {
			return err
		}
	case "map":
		key, err := kindOf(kind.Key)
		if err != nil {
			return err
		}
		of, err := kindOf(kind.Value)
		if err != nil {
			return err
		}
		if key.plain && of.plain && !at.list {
			if err := w.add(at.name+".key", at.in+".key"); err != nil {
				return err
			}
			return w.add(at.name+".value", at.in+".value")
		}
	}
	return w.add(at.name, at.in)
}

func (w *schemaWalk) add(name, in string) error {
	if len(w.columns) == maxColumns {
		return fmt.Errorf("more than %d columns", maxColumns)
	}
	w.columns = append(w.columns, Column{name, in})
	return nil
}

// kind is a type, which is a name or an object.
type kind struct {
	Type    string          `json:"-"`
	plain   bool            // a name
	Raw     json.RawMessage `json:"type"`
	Element json.RawMessage `json:"elementType"`
	Key     json.RawMessage `json:"keyType"`
	Value   json.RawMessage `json:"valueType"`
}

func kindOf(b json.RawMessage) (k kind, err error) {
	if !strings.HasPrefix(strings.TrimSpace(string(b)), "{") {
		k.plain = true
		return k, nil
	}
	if err = json.Unmarshal(b, &k); err == nil && json.Unmarshal(k.Raw, &k.Type) != nil {
		k.Type = "" // of no name
	}
	return k, err
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
