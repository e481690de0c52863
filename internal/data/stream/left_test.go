package stream

import (
	"strings"
	"testing"
)

// TestLeft: a range keeps the offsets that the log has, and the others are counted.
func TestLeft(t *testing.T) {
	marks := []Mark{{Topic: "t", ID: "A", Number: 1, Low: 50, High: 90}}
	for _, x := range []struct {
		r      Range
		lo, hi int64
		why    string
	}{
		{Range{"t", "A", 1, 60, 90}, 60, 90, ""},
		{Range{"t", "", 1, 60, 90}, 60, 90, ""},
		{Range{"t", "A", 1, 40, 70}, 50, 70, "10 of the records 40 to 69"},
		{Range{"t", "A", 1, 40, 100}, 50, 90, "begins at offset 50 and ends at 90"},
		{Range{"t", "A", 1, 10, 50}, 50, 50, "40 of the records 10 to 49"},
		{Range{"t", "A", 1, 90, 99}, 90, 90, "9 of the records 90 to 98"},
		{Range{"t", "A", 1, 95, 99}, 95, 95, "4 of the records 95 to 98"},
		{Range{"t", "B", 1, 60, 90}, 90, 90, "its id was B, and is A now"},
		{Range{"t", "A", 2, 60, 90}, 90, 90, "the partition is gone"},
		{Range{"u", "A", 1, 10, 20}, 10, 20, ""},
	} {
		left, lost, report := Left(x.r, marks)
		if left.Hi-left.Lo != x.hi-x.lo || x.lo < x.hi && left != (Range{x.r.Topic, x.r.ID, x.r.Number, x.lo, x.hi}) || lost != x.r.Hi-x.r.Lo-(x.hi-x.lo) {
			t.Errorf("%v: %v is left, %d lost", x.r, left, lost)
		}
		if !strings.Contains(report, x.why) || (report == "") != (x.why == "") {
			t.Errorf("%v: %q", x.r, report)
		}
	}
}

// TestLateFilesAreSkipped: with Rules.Late, a late file is reported once, while the folder is watched
// and after a resume, and the other files are read.
func TestLateFilesAreSkipped(t *testing.T) {
	rules := Rules{Most: 10, Late: true, Probe: func(string, int64) (Probe, error) { return Probe{Appends: true}, nil }}
	var at Position
	var past []Position
	start := func() *Folders {
		f, err := NewFolders(rules, []string{"f"}, at, PastOf(past, at, strings.Clone))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	look := func(f *Folders, want, bad string, names ...string) {
		t.Helper()
		var s Seen
		for _, name := range names {
			s.Files = append(s.Files, File{name, 8, "s"})
		}
		var span, skipped []string
		for range 2 {
			v, err := f.Next([]Seen{s}, 0)
			if err != nil {
				t.Fatal(err)
			}
			at.Folders = f.At()
			at.Skip(v.Bad)
			for _, x := range v.Bad {
				skipped = append(skipped, x.Name)
			}
			if span = append(span, v.Span...); len(v.Span) > 0 {
				at.Spans++
				p := at.Clone()
				p.Span, p.Parts = v.Span, v.Parts
				past = append(past, p)
			}
		}
		if strings.Join(span, " ") != want || strings.Join(skipped, " ") != bad {
			t.Errorf("%v: span %v, skipped %v, want %q and %q", names, span, skipped, want, bad)
		}
	}
	f := start()
	look(f, "c d", "", "c", "d")
	look(f, "e", "b", "b", "c", "d", "e")
	look(f, "", "", "b", "c", "d", "e")
	look(start(), "f", "a", "a", "b", "c", "d", "e", "f")
	look(start(), "g", "", "a", "b", "c", "d", "e", "f", "g")
	if at.Files != 2 || strings.Join(at.Skipped, " ") != "b a" {
		t.Errorf("%d files: %v", at.Files, at.Skipped)
	}
}
