package walk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestParseBy(t *testing.T) {
	for text, want := range map[string]string{"dt": "dt", "dt, hour": "dt,hour", "time=1d": "time=1d", "time=48h": "time=2d", "time=6h": "time=6h"} {
		if b, err := ParseBy(text); err != nil || b.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, b, err, want)
		}
	}
	for _, text := range []string{"", "dt,", "time=", "=1d", "time=d", "time=1w", "time=0d", "time=-1h", "time=99999999999h"} {
		if b, err := ParseBy(text); err == nil {
			t.Errorf("%q: %v, want an error", text, b)
		}
	}
}

// file writes a file of records.
func file(t *testing.T, name, text string) {
	fatal.If(t, os.MkdirAll(filepath.Dir(name), 0o755))
	fatal.If(t, os.WriteFile(name, []byte(text), 0o644))
}

// TestFoldersArePartitions: partitions are in the order of their dates, and data.train of each is
// narrowed within the pattern, so that it stands for the files of other hosts too.
func TestFoldersArePartitions(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"c/dt=2026-11-02/hour=5/a.csv", "c/dt=2026-11-02/hour=10/a.csv", "c/dt=2026-11-02/hour=10/b.csv", "c/dt=2026-10-31/hour=23/a.csv", "c/dt=2026-11-01/x/a.csv"} {
		file(t, name, "1,2\n")
	}
	list := func(pattern, by string) (days []string, p *Parts) {
		b, err := ParseBy(by)
		fatal.If(t, err)
		p, err = List(context.Background(), schema.Source{Train: []string{pattern}}, b, 0)
		fatal.If(t, err)
		for _, part := range p.All {
			days = append(days, part.Day+" "+strings.Join(part.Train, "+"))
		}
		return days, p
	}
	days, p := list("c/*/*/*.csv", "dt,hour")
	want := []string{"2026-10-31/23 c/dt=2026-10-31/hour=23/*.csv", "2026-11-02/5 c/dt=2026-11-02/hour=5/*.csv", "2026-11-02/10 c/dt=2026-11-02/hour=10/*.csv"}
	if !slices.Equal(days, want) || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "1 file without a value of hour") {
		t.Errorf("%q, notes %q; want %q", days, p.Notes, want)
	}
	if days, _ := list("c", "dt"); !slices.Equal(days[2:], []string{"2026-11-02 c/dt=2026-11-02/hour=10/a.csv+c/dt=2026-11-02/hour=10/b.csv+c/dt=2026-11-02/hour=5/a.csv"}) {
		t.Errorf("of a folder: %q", days)
	}
	for _, other := range []string{"c/dt=oops/a.csv", "c/dt=2026-11-02%20/a.csv"} {
		file(t, other, "1,2\n")
		_, err := List(context.Background(), schema.Source{Train: []string{"c"}}, By{Columns: []string{"dt"}}, 0)
		if err == nil || !strings.Contains(err.Error(), "rename its folder") {
			t.Errorf("%s: %v", other, err)
		}
		fatal.If(t, os.RemoveAll(filepath.Dir(other)))
	}
	if _, err := List(context.Background(), schema.Source{Train: []string{"c"}}, By{Columns: []string{"day"}}, 0); err == nil {
		t.Error("no folder of that column: no error")
	}
}

// TestAPartitionTwice: two folders of one day, and a file that two names stand for, are errors.
func TestAPartitionTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"c/y=2026/m=1/d=2/a.csv", "c/y=2026/m=01/d=2/b.csv", "e/dt=2026-11-01/a.csv"} {
		file(t, name, "1,2\n")
	}
	for by, x := range map[string]struct {
		train []string
		want  string
	}{
		"y,m,d": {[]string{"c"}, "are the same partition: rename one of the folders"},
		"dt":    {[]string{"e/*/*.csv", "e/dt=2026-11-01/a.csv"}, "e/dt=2026-11-01/a.csv is named twice"},
	} {
		if _, err := List(context.Background(), schema.Source{Train: x.train}, By{Columns: strings.Split(by, ",")}, 0); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("-by %s: %v, want %q", by, err, x.want)
		}
	}
}

// TestEmptyFilesArePartitions: a folder whose files have no bytes is a partition without rows. A file without
// bytes does not change the identity of a partition with others.
func TestEmptyFilesArePartitions(t *testing.T) {
	t.Chdir(t.TempDir())
	list := func(train ...string) *Parts {
		p, err := List(context.Background(), schema.Source{Train: train, Header: true}, By{Columns: []string{"dt"}}, 0)
		fatal.If(t, err)
		return p
	}
	file(t, "c/dt=2026-11-01/a.csv", "y,x\n1,2\n")
	before := list("c").All[0].Mark
	file(t, "c/dt=2026-11-01/b.csv", "")
	file(t, "c/dt=2026-11-02/a.csv", "")
	file(t, "c/dt=2026-11-03/a.csv", "y,x\n")
	p := list("c/dt=2026-11-02/*.csv", "c/dt=2026-11-01", "c/dt=2026-11-03/a.csv")
	if first := list("c").All[0]; !slices.Equal(first.Train, []string{"c/dt=2026-11-01/a.csv"}) || !slices.Equal(first.Empty, []string{"c/dt=2026-11-01/b.csv"}) {
		t.Errorf("files of the first: %+v", first)
	}
	if len(p.All) != 3 || list("c").All[0].Mark != before || p.All[1].Train != nil || p.All[2].Train == nil {
		t.Errorf("%+v, the mark of the first was %s", p.All, before)
	}
	for i, want := range []bool{true, false, false} {
		if got := p.HasRows(context.Background(), schema.Source{Header: true}, &p.All[i]); got != want {
			t.Errorf("%s has rows: %v", p.All[i].Day, got)
		}
	}
}

// TestColumnsOfLaterPartitions: a column that a partition lacks is one that another has, not a misspelt one.
func TestColumnsOfLaterPartitions(t *testing.T) {
	t.Chdir(t.TempDir())
	file(t, "c/dt=2026-11-01/a.csv", "y,x\n1,2\n")
	file(t, "c/dt=2026-11-02/a.csv", "y,old,x\n1,0,2\n")
	file(t, "c/dt=2026-11-03/a.csv", "y,new,x\n1,3,2\n")
	file(t, "c/dt=2026-11-04/a.csv", "y,x\n1,2\n")
	src := schema.Source{Train: []string{"c/dt=*/*.csv"}, Header: true}
	p, err := List(t.Context(), src, By{Columns: []string{"dt"}}, 0)
	fatal.If(t, err)
	for i, want := range []string{"{[new old] 2026-11-03 []}", "{[new] 2026-11-03 [old]}", "{[old] 2026-11-02 [new]}", "{[new old] 2026-11-03 []}"} {
		l, err := p.Lacks(src, &p.All[i], []string{"x", "new", "nwe", "old", "dt"})
		if got := fmt.Sprint(l); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", p.All[i].Day, got, err, want)
		}
	}
}

// TestWindowsOfATime: records are counted by window, and a window that is not over waits.
func TestWindowsOfATime(t *testing.T) {
	t.Chdir(t.TempDir())
	file(t, "a.csv", "y,time\n1,2026-11-01T23:59:59Z\n0,2026-11-02T00:00:00Z\n1,\n")
	file(t, "b.csv", "y,time\n1,2026-11-02T12:00:00Z\n1,2026-11-04T12:00:00Z\n")
	b, err := ParseBy("time=1d")
	fatal.If(t, err)
	src := schema.Source{Train: []string{"a.csv", "b.csv"}, Header: true}
	p, err := List(context.Background(), src, b, 1793750400) // 2026-11-04
	fatal.If(t, err)
	if len(p.All) != 2 || p.All[0].Day != "2026-11-01T00:00Z" || p.All[0].Mark != "1 rows" || p.All[1].Mark != "2 rows" || len(p.All[0].Train) != 1 || len(p.All[1].Train) != 2 || p.All[1].End != 1793664000 ||
		p.All[0].Where != "seconds(`time`, 'iso') >= 1793491200 and seconds(`time`, 'iso') < 1793577600" {
		t.Errorf("%+v", p.All)
	}
	if notes := strings.Join(p.Notes, "\n"); len(p.Notes) != 2 || !strings.Contains(notes, "1 record without a time") || !strings.Contains(notes, "2026-11-04T00:00Z is not over") {
		t.Errorf("notes %q", p.Notes)
	}
	src.Train = []string{"a.csv"}
	b.Field = "y"
	if _, err := List(context.Background(), src, b, 1<<40); err == nil || !strings.Contains(err.Error(), "neither ISO dates nor Unix times") {
		t.Errorf("a field without times: %v", err)
	}
}

// TestPlan: new partitions are next, in order; older, changed and missing ones are named.
func TestPlan(t *testing.T) {
	p := &Parts{By: By{Columns: []string{"dt"}}}
	for _, day := range []string{"20261028", "20261029", "20261030", "20261102", "20261105"} {
		p.All = append(p.All, Partition{Day: day, Mark: day})
	}
	var err error
	p.order, err = p.orderOf([]string{"20261028"})
	fatal.If(t, err)
	for i := range p.All {
		p.All[i].at, _ = p.order.at(p.All[i].Day)
	}
	done := rundir.Days{Days: []rundir.Day{{Day: "20261028", Mark: "20261028"}, {Day: "20261030", Mark: "other", Rows: 5}}}
	if pl, err := p.NewPlan(&rundir.Days{Days: append(slices.Clip(done.Days), done.Days[0])}, nil); err != nil || pl.Newest != "20261030" {
		t.Errorf("after the first again: newest %q, %v", pl.Newest, err)
	}
	days := func(all []Partition) (names string) {
		for _, part := range all {
			names += part.Day + " "
		}
		return names
	}
	pl, err := p.NewPlan(&done, nil)
	fatal.If(t, err)
	if got := days(pl.Next); got != "20261102 20261105 " || pl.Known != 1 {
		t.Errorf("next: %s, %d known", got, pl.Known)
	}
	lines := strings.Join(pl.Lines(func(*Late) (int64, bool) { return 7, true }, false), "\n")
	for _, want := range []string{"missing: dt=20261031, dt=20261101, dt=20261103, dt=20261104", "not trained on: dt=20261029; to train on it: -again 20261029", "late: dt=20261030: 7 rows arrived"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, lines)
		}
	}
	checkOlder(t, p, &done)
	if pl, err := p.NewPlan(&done, []string{"20261102"}); err != nil || !slices.Equal(pl.Missing, []string{"20261031", "20261101", "20261103", "20261104"}) {
		t.Errorf("missing with a new partition of -again: %q, %v", pl.Missing, err)
	}
	if pl, err = p.NewPlan(&done, []string{"dt=20261030", "20261029"}); err != nil || days(pl.Next) != "20261029 20261030 20261102 20261105 " || len(pl.Late)+len(pl.Older) != 0 {
		t.Errorf("again: %s, %v", days(pl.Next), err)
	}
	again := []string{"20261028", "20261030"}
	for days1, want := range map[string]string{"": "20261028 20261030 ", "20261028": "20261030 ", "20261028 20261030": ""} {
		killed := done
		for day := range strings.FieldsSeq(days1) { // the command was killed after these
			killed.Days = append(slices.Clip(killed.Days), rundir.Day{Day: day, Mark: day, Again: strings.Join(again, ",")})
		}
		if pl, err = p.NewPlan(&killed, again); err != nil || pl.Again != len(strings.Fields(want)) || !strings.HasPrefix(days(pl.Next), want) || len(pl.Next) != len(strings.Fields(want))+2 {
			t.Errorf("again after %q: %s, %v, want %s", days1, days(pl.Next), err, want)
		}
	}
	all := rundir.Days{}
	for _, part := range p.All {
		all.Days = append(all.Days, rundir.Day{Day: part.Day, Mark: part.Mark, Again: strings.Join(again, ",")})
	}
	if pl, err = p.NewPlan(&all, again); err != nil || days(pl.Next) != "20261028 20261030 " {
		t.Errorf("again, with nothing else to do: %s, %v", days(pl.Next), err)
	}
	if _, err = p.NewPlan(&done, []string{"20261101"}); err == nil {
		t.Error("a partition that does not exist: no error")
	}
	done.Days[0].Day = "2026-10-28"
	if _, err = p.NewPlan(&done, nil); err == nil {
		t.Error("a ledger of other values: no error")
	}
}

// checkOlder checks that the older partition 20261029 is named once, and again when its files have changed.
func checkOlder(t *testing.T, p *Parts, done *rundir.Days) {
	for i, want := range []bool{true, false, true, false} {
		if i == 2 {
			p.All[1].Mark = "more files"
		}
		pl, err := p.NewPlan(done, nil)
		fatal.If(t, err)
		named := func(all bool) bool {
			lines := pl.Lines(func(*Late) (int64, bool) { return 0, false }, all)
			return strings.Contains(strings.Join(lines, "\n"), "not trained on: dt=20261029")
		}
		if now, always := named(false), named(true); now != want || !always || pl.Named(done) != want {
			t.Errorf("command %d names the older partition: %v, with all %v, want %v", i, now, always, want)
		}
	}
}

// TestPartitionsAreComparedByTheirBytes: a file of the same size with other bytes is another one, a copy
// with another time is not.
func TestPartitionsAreComparedByTheirBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "dt=2026-11-01", "part.csv")
	fatal.If(t, errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("y,x\n0,a\n1,b\n"), 0o644)))
	at := time.Unix(1_800_000_000, 0)
	fatal.If(t, os.Chtimes(path, at, at))
	plan := func(done *rundir.Days) (*Parts, Plan) {
		t.Helper()
		by, err := ParseBy("dt")
		fatal.If(t, err)
		p, err := List(t.Context(), schema.Source{Train: []string{filepath.Join(dir, "dt=*", "*.csv")}}, by, 0)
		fatal.If(t, err)
		pl, err := p.NewPlan(done, nil)
		fatal.If(t, err)
		return p, pl
	}
	p, _ := plan(&rundir.Days{})
	times, content, err := p.All[0].Stamp()
	fatal.If(t, err)
	done := &rundir.Days{Days: []rundir.Day{{Day: p.All[0].Day, Mark: p.All[0].Mark, Times: times, Content: content}}}
	later := func(text string) {
		t.Helper()
		at = at.Add(time.Hour)
		fatal.If(t, errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, at, at)))
	}
	for _, x := range []struct {
		text string
		late int
	}{{"y,x\n0,a\n1,b\n", 0}, {"y,x\n1,a\n1,b\n", 1}, {"y,x\n0,a\n1,b\n0,c\n", 1}} {
		later(x.text)
		if _, pl := plan(done); len(pl.Late) != x.late || len(pl.Next) != 0 || pl.Known != 1-x.late {
			t.Errorf("%q: late %+v, next %+v, known %d", x.text, pl.Late, pl.Next, pl.Known)
		}
	}
	if done.Days[0].Content = ""; times == "" || content == "" {
		t.Errorf("times %q, content %q", times, content)
	}
	later("y,x\n1,a\n1,b\n") // a ledger of an earlier version has no content
	if _, pl := plan(done); len(pl.Late) != 0 {
		t.Errorf("without content: late %+v", pl.Late)
	}
}
