package table

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/flat"
)

// meanings is what writers say of columns, by name. The type of a column in the schema of Parquet may be
// only how a writer stores it. Writers keep their own schema among the keys of the footer.
type meanings struct {
	why   map[string]string // values mean something else than they are stored as, and are not read because of it
	zones map[string]string // names of time zones
}

const maxNesting = 100 // of types

// meaningsOf reads the schemas of Spark and Arrow. What cannot be parsed has no meaning.
func meaningsOf(keys []keyValue) meanings {
	m := meanings{map[string]string{}, map[string]string{}}
	for _, k := range keys {
		switch k.Key {
		case "org.apache.spark.sql.parquet.row.metadata":
			m.spark("", json.RawMessage(k.Value), 0)
		case "ARROW:schema":
			if b, err := base64.StdEncoding.DecodeString(k.Value); err == nil && len(b) > 8 {
				m.arrow(flat.Buffer(b[8:])) // after a mark and the length
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

// sparkVector is why a vector that is not stored as four fields, or is in a list, is not read.
const sparkVector = "is a vector of Spark; write it as a list of numbers (pyspark.ml.functions.vector_to_array)"

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
			why = sparkVector
		}
		m.why[name] = why
	}
}

// Types of Arrow.
const (
	arrowInt       = 2
	arrowTimestamp = 10
	arrowStruct    = 13
	arrowDuration  = 18
)

// arrow reads a message with a schema of Arrow.
func (m meanings) arrow(b flat.Buffer) {
	left := len(b) // fields: a damaged schema may refer to a field again and again
	b.Each(b.Ref(b.Uint32(0), 2), 1, func(field int) { m.arrowField(b, "", field, 0, &left) })
}

// arrowField reads a field, which is a member of the struct within or the elements of a list
// of that name.
func (m meanings) arrowField(b flat.Buffer, name string, field, nesting int, left *int) {
	if *left--; *left < 0 || nesting > maxNesting {
		return
	}
	if nesting == 0 {
		name = b.Text(field, 0)
	}
	kind, width := byte(0), 0
	if at := b.Field(field, 2); at > 0 && at < len(b) {
		kind = b[at]
	}
	if at := b.Field(b.Ref(field, 3), 0); kind == arrowInt && at > 0 {
		width = b.Uint32(at)
	}
	extension := ""
	b.Each(field, 6, func(pair int) {
		if b.Text(pair, 0) == "ARROW:extension:name" {
			extension = b.Text(pair, 1)
		}
	})
	if kind == arrowTimestamp {
		m.zones[name] = b.Text(b.Ref(field, 3), 1)
	}
	switch {
	case extension != "" && !SameAsStored(extension):
		m.why[name] = fmt.Sprintf("is of the Arrow extension type %s; write its values as a plain type", extension)
	case kind == arrowDuration:
		m.why[name] = "is a duration, stored without its unit; write it as a number (Polars, pandas: dt.total_seconds())"
	case width > 64:
		m.why[name] = fmt.Sprintf("is an integer of %d bits; write it as an integer of 64 bits or as text", width)
	}
	b.Each(field, 5, func(child int) {
		of := name
		if kind == arrowStruct {
			of = joined(name, b.Text(child, 0))
		}
		m.arrowField(b, of, child, nesting+1, left)
	})
}

// SameAsStored reports whether the values of an extension type of Arrow are those of its storage
// type.
func SameAsStored(extension string) bool {
	switch extension {
	case "arrow.uuid", "arrow.json", "arrow.bool8", "arrow.fixed_shape_tensor":
		return true
	}
	return false
}
