package data

import (
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestVocabularyOfPieces(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{
		{Field: "t", Encode: "vocabulary", Separator: "||", MinCount: 2}, {Name: "whole", Field: "t", Encode: "vocabulary"}}}
	src := schema.Source{Fields: []string{"t", "y"}, Missing: []string{"?"}}
	_, fit := prepare(t, src, s, 1, datatest.Write(t, "t.csv", "a||b,1\nb|| ||c||?,0\n,1\na|,1\n"))
	e := newEncoder(t, fit)
	if got := statisticsOf(t, e, "t").Vocabulary; !slices.Equal(got, []string{"b"}) {
		t.Errorf("words seen twice: %q", got)
	}
	if got := statisticsOf(t, e, "whole").Vocabulary; !slices.Equal(got, []string{"a|", "a||b", "b|| ||c||?"}) {
		t.Errorf("whole values: %q", got)
	}
}

func TestMergeRefusesOthers(t *testing.T) {
	a, b := encode.NewFit(peopleSchema()), encode.NewFit(adultSchema())
	if err := a.Merge(b.Marshal()); err == nil || !strings.Contains(err.Error(), "another schema") {
		t.Errorf("statistics of another schema: %v", err)
	}
	whole := adultFit(t).Marshal()
	for n := range len(whole) {
		if n > 100 && n%patient.Size(211, 37) != 0 {
			continue
		}
		if err := encode.NewFit(adultSchema()).Merge(whole[:n]); err == nil {
			t.Errorf("statistics cut at %d of %d were accepted", n, len(whole))
		}
	}
	if err := encode.NewFit(adultSchema()).Merge(append(slices.Clone(whole), 0)); err == nil {
		t.Error("statistics with a byte too many were accepted")
	}
}

func adultFit(t testing.TB) *encode.Fit {
	_, fit := prepare(t, adultSource(), adultSchema(), 1, "builtin:adult.test")
	return fit
}

func TestCountsMerge(t *testing.T) {
	part := func(first int32, n ...int32) *Counts {
		var groups []group
		for i, rows := range n {
			groups = append(groups, group{int64(100 * i), first + int32(i), 0, 1})
			if rows > 1 {
				groups = append(groups, group{int64(100*i + 7), first + int32(i), 1, rows - 1})
			}
		}
		return &Counts{dataset: 9, spans: []span32{{first, n, make([]int32, len(n)), groups}}, positives: 1, content: 1 << 62, held: 5}
	}
	c := new(Counts)
	for _, p := range []*Counts{part(4, 7), part(0, 1, 2), {dataset: 9}, part(2, 3, 4)} {
		fatal.If(t, c.Merge(p.Marshal()))
	}
	if len(c.spans) != 1 || !slices.Equal(c.spans[0].records, []int32{1, 2, 3, 4, 7}) || c.Records() != 17 || c.Positives() != 3 || c.content != 3<<62 || c.held != 15 || len(c.spans[0].groups) != 9 {
		t.Errorf("merged: %+v", c)
	}
	if err := c.Merge(part(4, 1).Marshal()); err == nil {
		t.Error("a block was counted twice")
	}
	other := part(9, 1)
	other.dataset = 1
	if err := c.Merge(other.Marshal()); err == nil {
		t.Error("counts of another dataset were merged")
	}
	if c.Records() != 17 {
		t.Error("a refused merge changed the counts")
	}
}

// Counts and statistics are the same in any number of parts.
func TestScanInParts(t *testing.T) {
	var fits, counts []string
	for _, parts := range []int{1, 2, 3, 61, 200} {
		d, err := Open(adultSource(), adultSchema(), []string{"builtin:adult.data", "builtin:adult.test"})
		fatal.If(t, err)
		fatal.If(t, d.HoldOut(.2, 3))
		fit, c := scanAll(t, d, adultSchema(), parts)
		fits, counts = append(fits, string(fit.Marshal())), append(counts, string(c.Marshal()))
	}
	for i := range fits {
		if fits[i] != fits[0] || counts[i] != counts[0] {
			t.Errorf("scan %d gives other statistics or counts than scan 0", i)
		}
	}
}

func FuzzMergeCounts(f *testing.F) {
	f.Add((&Counts{dataset: 9, spans: []span32{{3, []int32{4, 5}, []int32{0, 1}, []group{{9, 3, 0, 3}, {70, 3, 3, 1}, {0, 4, 0, 5}}}}, positives: 2, content: 1 << 63}).Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Counts
		if c.Merge(b) != nil {
			return
		}
		var again Counts
		if err := again.Merge(c.Marshal()); err != nil || again.Records() != c.Records() || again.content != c.content {
			t.Fatalf("what was accepted is refused: %v", err)
		}
	})
}
