package table

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The type of a column in the schema of Parquet may be only how a writer stores it. Writers
// keep their own schema among the keys of the footer. meanings are the columns, by name, whose
// values mean something else than they are stored as, and why they are not read.
type meanings map[string]string

const maxNesting = 100 // of types

// meaningsOf reads the schemas of Spark and Arrow. What cannot be parsed has no meaning.
func meaningsOf(keys []keyValue) meanings {
	m := meanings{}
	for _, k := range keys {
		switch k.Key {
		case "org.apache.spark.sql.parquet.row.metadata":
			m.spark("", json.RawMessage(k.Value), 0)
		case "ARROW:schema":
			if b, err := base64.StdEncoding.DecodeString(k.Value); err == nil && len(b) > 8 {
				m.arrow(flatBuffer(b[8:])) // after a mark and the length
			}
		}
	}
	return m
}

// joined returns the name of a member of a struct.
func joined(within, name string) string {
	if within == "" {
		return name
	}
	return within + "." + name
}

// spark reads a type of Spark, which is a name or an object.
func (m meanings) spark(name string, b json.RawMessage, nesting int) {
	var t struct {
		Type    string          `json:"type"`
		Class   string          `json:"class"`
		PyClass string          `json:"pyClass"`
		Element json.RawMessage `json:"elementType"`
		Fields  []struct {
			Name string          `json:"name"`
			Type json.RawMessage `json:"type"`
		} `json:"fields"`
	}
	if nesting > maxNesting || json.Unmarshal(b, &t) != nil {
		return
	}
	switch t.Type {
	case "struct":
		for _, f := range t.Fields {
			m.spark(joined(name, f.Name), f.Type, nesting+1)
		}
	case "array":
		m.spark(name, t.Element, nesting+1)
	case "udt":
		class := t.Class
		if class == "" {
			class = t.PyClass
		}
		why := "is stored as the type " + class + " of Spark; write its values as plain columns"
		if class == "org.apache.spark.ml.linalg.VectorUDT" || class == "org.apache.spark.mllib.linalg.VectorUDT" {
			why = "is a vector of Spark, stored as four fields; write it as a list of numbers (pyspark.ml.functions.vector_to_array)"
		}
		m[name] = why
	}
}

// flatBuffer is a FlatBuffer: tables, each with the offset of a list of the offsets of its fields.
// Offsets that lead out of it read as zero.
type flatBuffer []byte

func (b flatBuffer) u32(at int) int {
	if at < 0 || at > len(b)-4 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b[at:]))
}

// field returns the offset of field i of a table, 0 if it is absent.
func (b flatBuffer) field(table, i int) int {
	list := table - int(int32(b.u32(table)))
	if list < 0 || list > len(b)-4 {
		return 0
	}
	at := 4 + 2*i
	if size := int(binary.LittleEndian.Uint16(b[list:])); at+2 > size || list+at > len(b)-2 {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(b[list+at:])); offset > 0 {
		return table + offset
	}
	return 0
}

// ref follows the offset in field i of a table, 0 if it is absent.
func (b flatBuffer) ref(table, i int) int {
	at := b.field(table, i)
	if at == 0 {
		return 0
	}
	return at + b.u32(at)
}

// text returns the string in field i of a table.
func (b flatBuffer) text(table, i int) string {
	at := b.ref(table, i)
	n := b.u32(at)
	if at == 0 || n > len(b)-at-4 {
		return ""
	}
	return string(b[at+4 : at+4+n])
}

// each calls f with the tables in field i of a table.
func (b flatBuffer) each(table, i int, f func(table int)) {
	at := b.ref(table, i)
	if at == 0 {
		return
	}
	for n := range min(b.u32(at), len(b)/4) {
		element := at + 4 + 4*n
		f(element + b.u32(element))
	}
}

// Types of Arrow.
const (
	arrowInt      = 2
	arrowStruct   = 13
	arrowDuration = 18
)

// arrow reads a message with a schema of Arrow.
func (m meanings) arrow(b flatBuffer) {
	left := len(b) // fields: a damaged schema may refer to a field again and again
	b.each(b.ref(b.u32(0), 2), 1, func(field int) { m.arrowField(b, "", field, 0, &left) })
}

// arrowField reads a field, which is a member of the struct within or the elements of a list
// of that name.
func (m meanings) arrowField(b flatBuffer, name string, field, nesting int, left *int) {
	if *left--; *left < 0 || nesting > maxNesting {
		return
	}
	if nesting == 0 {
		name = b.text(field, 0)
	}
	kind, width := byte(0), 0
	if at := b.field(field, 2); at > 0 && at < len(b) {
		kind = b[at]
	}
	if at := b.field(b.ref(field, 3), 0); kind == arrowInt && at > 0 {
		width = b.u32(at)
	}
	extension := ""
	b.each(field, 6, func(pair int) {
		if b.text(pair, 0) == "ARROW:extension:name" {
			extension = b.text(pair, 1)
		}
	})
	switch {
	case extension != "" && !sameAsStored(extension):
		m[name] = fmt.Sprintf("is of the Arrow extension type %s; write its values as a plain type", extension)
	case kind == arrowDuration:
		m[name] = "is a duration, stored without its unit; write it as a number (Polars, pandas: dt.total_seconds())"
	case width > 64:
		m[name] = fmt.Sprintf("is an integer of %d bits; write it as an integer of 64 bits or as text", width)
	}
	b.each(field, 5, func(child int) {
		of := name
		if kind == arrowStruct {
			of = joined(name, b.text(child, 0))
		}
		m.arrowField(b, of, child, nesting+1, left)
	})
}

// sameAsStored reports whether the values of an extension type are what Parquet stores.
func sameAsStored(extension string) bool {
	switch extension {
	case "arrow.uuid", "arrow.json", "arrow.bool8", "arrow.fixed_shape_tensor":
		return true
	}
	return false
}
