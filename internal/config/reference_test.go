package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// structsOf lists every struct a Config is made of.
func structsOf(t reflect.Type, found map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		structsOf(t.Elem(), found)
	case reflect.Struct:
		found[t] = true
		for i := range t.NumField() {
			structsOf(t.Field(i).Type, found)
		}
	}
}

// TestReferenceIsComplete: each field of each struct has its key in the table, in the same
// order and with a description, and the table has no other keys.
func TestReferenceIsComplete(t *testing.T) {
	found := map[reflect.Type]bool{}
	structsOf(reflect.TypeFor[Config](), found)
	s := newGrammar()
	for typ := range found {
		i, ok := s.byType[typ]
		if !ok {
			t.Errorf("%v has no section", typ)
			continue
		}
		var have []string
		for _, k := range s.sections[i].keys {
			have = append(have, k.name)
			if k.about == "" {
				t.Errorf("%v: %s has no meaning", typ, k.name)
			}
			if k.rng != "" {
				describeInterval(k.rng) // panics on an interval that cannot be read
			}
		}
		if want := s.names(typ); !reflect.DeepEqual(have, want) {
			t.Errorf("%v: the table has the keys %v, the struct %v", typ, have, want)
		}
		delete(s.byType, typ)
	}
	for typ := range s.byType {
		t.Errorf("section of %v, which is not a part of a Config", typ)
	}
}

// TestFileOfTheReference: the file at the start of the reference is a valid configuration.
func TestFileOfTheReference(t *testing.T) {
	_, file, _ := strings.Cut(Reference(), "are required:\n\n")
	file, _, _ = strings.Cut(file, "\n\n")
	c, err := Parse("", []byte(regexp.MustCompile("(?m)^    ").ReplaceAllString(file, "")))
	if err != nil || c.Model.Kind != "deepfm" || len(c.Features) != 4 || len(c.Tables) != 1 {
		t.Errorf("%v: %+v\n%s", err, c, file)
	}
}

// TestTopicsOfTheReference: every address in the reference and the guide is valid, every
// option of an address is documented, and the examples of the reference are valid.
func TestTopicsOfTheReference(t *testing.T) {
	guide, err := os.ReadFile("../../docs/data.md")
	fatal.If(t, err)
	shown := regexp.MustCompile(`kafka://[a-z][^\s"]*`).FindAllString(Reference()+string(guide), -1)
	if len(shown) < 5 {
		t.Errorf("only %q are shown", shown)
	}
	for _, s := range shown {
		if _, err := kafka.ParseAddress(s); err != nil {
			t.Error(err)
		}
	}
	_, err = kafka.ParseAddress("kafka://a:1/t?none=1")
	_, list, ok := strings.Cut(fmt.Sprint(err), "there are ")
	if !ok {
		t.Fatal(err)
	}
	list, _, _ = strings.Cut(list, ";")
	for o := range strings.SplitSeq(strings.ReplaceAll(list, " and ", ", "), ", ") {
		if !strings.Contains(Reference(), "\n    "+o+"=") {
			t.Errorf("the reference does not explain %s", o)
		}
	}
	n := 0
	for line := range strings.Lines(Reference()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "train: [\"kafka://") {
			n++
			text := "data:\n  " + line + "\n  format: jsonl\n  follow: {on: true}\nlabel: {field: y}\nfeatures: [{field: x, encode: hash}]\n"
			if c, err := Parse("help.yaml", []byte(text)); err != nil {
				t.Error(err)
			} else if err := c.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d examples", n)
	}
}

func TestReference(t *testing.T) {
	golden.Check(t, "reference.txt", Reference())
}

// TestReferenceListsTheDefaults compares each default in the table with the value that Fill
// sets.
func TestReferenceListsTheDefaults(t *testing.T) {
	c, err := Parse("small", []byte(small))
	fatal.If(t, err)
	c.Model.EmbeddingDim, c.Train.GlobalBatch = 0, 0
	c.Fill()
	compared := 0
	for _, sec := range newGrammar().sections {
		var v reflect.Value
		switch sec.typ {
		case reflect.TypeFor[Model]():
			v = reflect.ValueOf(c.Model)
		case reflect.TypeFor[Train]():
			v = reflect.ValueOf(c.Train)
		case reflect.TypeFor[L2]():
			v = reflect.ValueOf(c.Train.L2)
		case reflect.TypeFor[Init]():
			v = reflect.ValueOf(c.Model.Init)
		case reflect.TypeFor[EarlyStop]():
			v = reflect.ValueOf(c.Train.EarlyStop)
		case reflect.TypeFor[Checkpoint]():
			v = reflect.ValueOf(c.Train.Checkpoint)
		default:
			continue
		}
		for i, k := range sec.keys {
			f := v.Field(i)
			if k.def == "" || k.def == "none" || f.Kind() == reflect.Struct || strings.HasPrefix(k.def, "the ") {
				continue
			}
			def, _, _ := strings.Cut(k.def, " without")
			def, _, _ = strings.Cut(def, ", n") // "0, never"
			e := emitter{}
			if got := e.line(f); got != def {
				t.Errorf("%s.%s: the table has %s, Fill sets %s", sec.path, k.name, def, got)
			}
			compared++
		}
	}
	if compared < 25 {
		t.Errorf("compared %d defaults only", compared)
	}
}

// TestEveryKeyIsAccepted writes each key of the reference to a file with a value of its type
// and checks that the decoder accepts it.
func TestEveryKeyIsAccepted(t *testing.T) {
	s := newGrammar()
	for _, sec := range s.sections {
		if sec.path == "" || strings.Contains(sec.path, " ") {
			continue
		}
		for _, k := range sec.keys {
			path := strings.ReplaceAll(sec.path, "[]", "[0]") + "." + k.name
			c := Default()
			c.Tables = []Table{{Name: "sex"}}
			c.Train.From.Names = []Named{{Name: "sex"}}
			d := &decoder{schema: s, place: map[string]place{}}
			_, found, ok := d.find(reflect.ValueOf(c).Elem(), path)
			if !ok || fmt.Sprint(found) != fmt.Sprint(k) {
				t.Errorf("%s: found %v, %v, want %v", path, found, d.faults, k)
			}
		}
	}
}
