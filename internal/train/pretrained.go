package train

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/sparse"
)

// pretrained begins embeddings of a new training with the vectors of files (features[].init).
type pretrained struct{ *run }

func (r pretrained) begin() error {
	for i := range r.config.Features {
		f := &r.config.Features[i]
		if f.Init == "" {
			continue
		}
		if err := r.fill(f); err != nil {
			return permanent(fmt.Errorf("features[%d].init: %w", i, err))
		}
	}
	return nil
}

// freeze keeps the embeddings of tables as they are in the first steps of the training (features[].freeze).
func (r pretrained) freeze() {
	l := layout.New(r.config, r.in.Encoder.Sparse(), r.in.Encoder.Dense())
	until := map[int]int64{} // by table
	for i := range r.config.Features {
		f := &r.config.Features[i]
		if at := slices.IndexFunc(l.Tables, func(t sparse.Table) bool { return t.Name == f.Table }); f.Freeze > 0 && at >= 0 {
			until[at] = max(until[at], r.cursor.source()+f.Freeze)
		}
	}
	for table, step := range until {
		r.trainer.Store().Files().Freeze(table, slices.IndexFunc(l.Tables[table].Parts, func(p sparse.Part) bool { return p.Name == layout.Deep }), step)
	}
}

// fill sets the embeddings of the values of a feature that a file has. With a vocabulary, values
// outside of it are left out: no row of the model stands for one.
func (r pretrained) fill(f *schema.Feature) error {
	words, vectors, known := r.in.Encoder.Words(f.Name), 0, 0
	vocabulary, example := f.Encode == "vocabulary", ""
	seen := make(map[uint64]struct{})
	e := step.NewEmbeddings(r.trainer, f.Name)
	err := arrays.EachVector(f.Init, func(value []byte, vector []float32) error {
		if vectors++; vectors == 1 {
			example = string(value)
		}
		key, ok := encode.ValueKey(f, value)
		if !ok {
			return fmt.Errorf("value %q is no integer, which encode: %s needs", value, f.Encode)
		}
		if _, again := seen[key]; again {
			return fmt.Errorf("value %q occurs twice: give each value one vector", value)
		}
		seen[key] = struct{}{}
		if vocabulary {
			if _, ok = slices.BinarySearch(words, string(value)); !ok {
				return e.Check(vector)
			}
		}
		known++
		return e.Set(key, vector)
	})
	if err != nil {
		return err
	}
	if vocabulary && known == 0 && vectors > 0 && len(words) > 0 {
		return fmt.Errorf("none of the %d values of the data, such as %q, is among the %d of %s, such as %q: the file is probably of another column, or writes values in another form; correct it, or remove init", len(words), words[len(words)-1], vectors, f.Init, example)
	}
	if err := e.End(); err != nil {
		return err
	}
	counts := []int64{int64(e.Put), int64(e.Held)}
	if err := collective.AllReduce(r.Comm, counts, collective.Sum); err != nil {
		return err
	}
	line := fmt.Sprintf("%s: %d of %s begin with vectors of %s", f.Name, known, plural.Of(len(words), "value"), f.Init)
	if !vocabulary {
		line = fmt.Sprintf("%s: %s begin with vectors of %s; how many of them occur in the data is not known, because encode: %s keeps no list of values", f.Name, plural.Of(known, "value"), f.Init, f.Encode)
	}
	if counts[1] > 0 {
		line += fmt.Sprintf("; %d have a row already and keep it", counts[1])
	}
	if left := vectors - known; left > 0 {
		line += fmt.Sprintf("; %s of it are left out, because their values are not in the vocabulary", plural.Of(left, "vector"))
	}
	r.Say(line)
	return nil
}
