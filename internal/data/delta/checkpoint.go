package delta

import (
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Columns of a checkpoint. Each row has one action, whose columns are not null.
const (
	addPath = iota
	addKeys
	addValues
	addVector
	addVectorIn
	addVectorAt
	addVectorRows
	minReader
	features
	schemaString
	partitions
	configKeys
	configValues
	provider
	sidecarPath
	numColumns
)

var errMap = errors.New("a map with more keys than values")

// columnNames returns the names of the columns of a checkpoint.
func columnNames() [numColumns]string {
	return [numColumns]string{"add.path", "add.partitionValues.key", "add.partitionValues.value", "add.deletionVector.storageType",
		"add.deletionVector.pathOrInlineDv", "add.deletionVector.offset", "add.deletionVector.cardinality",
		"protocol.minReaderVersion", "protocol.readerFeatures", "metaData.schemaString", "metaData.partitionColumns",
		"metaData.configuration.key", "metaData.configuration.value", "metaData.format.provider", "sidecar.path"}
}

// readCheckpoint applies the actions of a part of a checkpoint.
func readCheckpoint(path string, s *state) error { return readRows(path, s, minReader, schemaString) }

// readSidecar applies the actions of a file that a checkpoint names: of files only.
func readSidecar(path string, s *state) error { return readRows(path, s, addPath) }

// readRows applies the actions of a Parquet file, which must have some columns.
func readRows(path string, s *state, need ...int) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxCheckpoint {
		return fmt.Errorf("it has more than %d bytes", int64(maxCheckpoint))
	}
	return s.readTable(f, info.Size(), need...)
}

func (s *state) readTable(r io.ReaderAt, size int64, need ...int) error {
	t, err := table.Open(r, size)
	if err != nil {
		return err
	}
	names := columnNames()
	for _, i := range need {
		if !t.Has(names[i]) {
			return fmt.Errorf("it has no column %s", names[i])
		}
	}
	if !t.Has(names[addPath]) && !t.Has(names[sidecarPath]) {
		return fmt.Errorf("it has neither the column %s nor %s", names[addPath], names[sidecarPath])
	}
	var row []byte
	lists := make([]value.List, numColumns)
	for group := range t.Groups() {
		rows, err := t.Rows(group, names[:], true)
		if err != nil {
			return err
		}
		for {
			if row, err = rows.Append(row[:0]); errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = table.Decode(row, lists)
			}
			if err == nil {
				err = s.applyRow(lists)
			}
			if err != nil {
				rows.Close()
				return err
			}
		}
		rows.Close()
	}
	return nil
}

// applyRow applies the action of a row.
func (s *state) applyRow(lists []value.List) (err error) {
	var a action
	switch {
	case lists[addPath].Len() > 0:
		a.Add = &add{Path: text(&lists[addPath])}
		if lists[addVector].Len() > 0 {
			v := &vector{StorageType: text(&lists[addVector]), PathOrInlineDv: text(&lists[addVectorIn])}
			if at := &lists[addVectorAt]; at.Kind == value.Int && at.Len() > 0 {
				offset := int32(at.Ints[0])
				v.Offset = &offset
			}
			if n := &lists[addVectorRows]; n.Kind == value.Int && n.Len() > 0 {
				v.Cardinality = n.Ints[0]
			}
			a.Add.DeletionVector = v
		}
		a.Add.PartitionValues, err = pairs(&lists[addKeys], &lists[addValues])
	case lists[schemaString].Len() > 0:
		a.MetaData = &metaData{SchemaString: text(&lists[schemaString]), PartitionColumns: texts(&lists[partitions])}
		a.MetaData.Format.Provider = text(&lists[provider])
		a.MetaData.Configuration, err = pairs(&lists[configKeys], &lists[configValues])
	case lists[sidecarPath].Len() > 0:
		a.Sidecar = &sidecar{Path: text(&lists[sidecarPath])}
	case lists[minReader].Kind == value.Int && lists[minReader].Len() > 0:
		a.Protocol = &protocol{MinReaderVersion: lists[minReader].Ints[0], ReaderFeatures: texts(&lists[features])}
	}
	if err != nil {
		return err
	}
	return s.apply(&a)
}

// text returns the first value of a list, "" if there is none.
func text(l *value.List) string {
	if l.Len() == 0 {
		return ""
	}
	return string(l.Append(nil, 0))
}

func texts(l *value.List) (all []string) {
	for i := range l.Len() {
		all = append(all, string(l.Append(nil, i)))
	}
	return all
}

// pairs returns a map from its keys and values.
func pairs(keys, values *value.List) (map[string]*string, error) {
	m := map[string]*string{}
	all := make([]*string, 0, keys.Len())
	for i := range values.All {
		var v *string
		if i >= 0 {
			s := string(values.Append(nil, i))
			v = &s
		}
		all = append(all, v)
	}
	if len(all) != keys.Len() {
		return nil, errMap
	}
	for i, key := range texts(keys) {
		m[key] = all[i]
	}
	return m, nil
}
