package table

import (
	"bytes"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestRowsThatAppearLaterAreDecayed: with DenseL2, the row of a key that appears late equals the
// row of a key that had a gradient of zero in every step, for every rule.
func TestRowsThatAppearLaterAreDecayed(t *testing.T) {
	for _, kind := range optim.Kinds() {
		part := Part{Name: "p", Dim: 3, Rule: optim.Rule{Kind: kind}, Init: Init{Kind: "normal"}, L2: 0.1, DenseL2: true}
		late, early := open(t, 4, part), open(t, 4, part)
		fatal.If(t, early.insertAll([]uint64{5}, make([]Row, 1)))
		for n := int64(1); n <= 40; n++ {
			g := Gradients{Keys: []uint64{7}, Values: []float32{1, 2, 3}}
			at := optim.Step{N: n, Scale: 1, Rate: 1 / float64(1+n/10), Clip: 0.5}
			if n == 40 {
				g = Gradients{Keys: []uint64{5, 7}, Values: []float32{1, 2, 3, 1, 2, 3}}
				if got, want := read(t, late, 5), read(t, early, 5); !slices.Equal(got, want) {
					t.Errorf("%s: before it appears the row is %v, want %v", kind, got, want)
				}
			}
			var a, b Sum
			early.NormSq(1, g, &a)
			late.NormSq(1, g, &b)
			if n == 40 && a.Total() != b.Total() {
				t.Errorf("%s: the norm of a row that appears is %v, want %v", kind, b.Total(), a.Total())
			}
			for _, x := range []*Table{late, early} {
				if _, err := x.Apply(at, g); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, key := range []uint64{5, 7} {
			if got, want := read(t, late, key), read(t, early, key); !slices.Equal(got, want) {
				t.Errorf("%s: key %d: %v, want %v", kind, key, got, want)
			}
		}
	}
}

// TestPastIsShort: successive steps of one rate are stored as one span.
func TestPastIsShort(t *testing.T) {
	var p Past
	for n := int64(1); n <= 1000; n++ {
		p.Add(optim.Step{N: n, Scale: 1, Rate: 1})
		p.Add(optim.Step{N: n, Scale: 1, Rate: 1}) // by another table
	}
	p.Add(optim.Step{N: 1002, Scale: 1, Rate: 1})
	if len(p.spans) != 2 {
		t.Errorf("%+v", p.spans)
	}
}

// TestPastRateOfZero: files of earlier versions contain a rate of 0 if a schedule ended at 0.
// Rows that appear later must not change by such steps.
func TestPastRateOfZero(t *testing.T) {
	part := Part{Name: "p", Dim: 2, Rule: optim.Rule{Kind: "sgd"}, Init: Init{Kind: "normal"}, L2: 0.5, DenseL2: true}
	x := open(t, 1, part)
	x.Share(&Past{spans: []span{{first: 1, n: 3, at: optim.Step{N: 1, Scale: 1, Clip: 1}}}, last: 3})
	want, got := make([]float32, 2), make([]float32, 2)
	x.Initial(7, want)
	if _, err := x.Apply(optim.Step{N: 4}, Gradients{Keys: []uint64{7}, Values: make([]float32, 2)}); err != nil {
		t.Fatal(err)
	}
	rows := make([]Row, 1)
	fatal.If(t, x.Find([]uint64{7}, rows))
	x.Read([]uint64{7}, rows, got, 2)
	for i, w := range want { // only step 4 decays
		if once := w - float32(0.3*float32(0.5*w)); got[i] != once {
			t.Errorf("value %d is %v after three steps of rate 0 and one of 1, want %v", i, got[i], once)
		}
	}
}

// FuzzPast checks that loading and saving are inverse and that damaged bytes change nothing.
func FuzzPast(f *testing.F) {
	var p Past
	p.Add(optim.Step{N: 1, Scale: 0.5, Rate: 1})
	p.Add(optim.Step{N: 2, Scale: 0.5, Rate: 1})
	p.Add(optim.Step{N: 4, Scale: 0.25, Rate: 0.5, Clip: 0.1})
	var b bytes.Buffer
	fatal.If(f, p.Save(&b))
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-1])
	f.Add(slices.Repeat(b.Bytes(), 2))
	f.Fuzz(func(t *testing.T, in []byte) {
		x := Past{last: 7}
		if err := x.Load(bytes.NewReader(in)); err != nil {
			if x.last != 7 || x.spans != nil {
				t.Fatalf("rejected with %v, but changed to %+v", err, x)
			}
			return
		}
		var out bytes.Buffer
		if err := x.Save(&out); err != nil || !bytes.Equal(out.Bytes(), in) {
			t.Fatalf("saved again it differs: %v", err)
		}
		x.Add(optim.Step{N: x.last + 1, Scale: 1, Rate: 1})
	})
}
