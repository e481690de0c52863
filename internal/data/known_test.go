package data_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stats"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// known holds the expected values of files that other programs wrote: the number of
// records, then for each column its name, the records without a value and the sum of the
// values (- for strings). A separate program using only Python's csv, struct and gzip
// counted them. For Parquet they are taken from the source CSV; a value that differs follows
// an equals sign.
var known = map[string]string{
	"fuxictr_tiny_csv_test.csv": `100 clk:0:4 time_stamp:0:- userid:0:61265831 adgroup_id:0:48870401 pid:0:-
		cate_id:0:515684 campaign_id:0:21548842 customer:0:10401077 brand:27:14782729 price:0:24991.27 cms_segid:8:1279
		cms_group_id:8:386 final_gender_code:8:166 age_level:8:278 pvalue_level:60:71 shopping_level:8:256 occupation:8:3
		new_user_class_level:100:- click_sequence:84:-`,
	"fuxictr_tiny_test.tfrecord": `100 adgroup_id:0:5031 age_level:0:326 brand:0:4207 campaign_id:0:4816 cate_id:0:2333 clk:0:4
		cms_group_id:0:505 cms_segid:0:320 customer:0:4823 final_gender_code:0:190 occupation:0:119 pid:0:170
		pvalue_level:0:251 shopping_level:0:288 userid:0:1294`,
	"fuxictr_tiny_test.parquet": `100 clk:0:4 userid=24 cate_id=47 pid=2 cms_group_id=10`,
	"chicago_taxi.csv": `399 pickup_community_area:2:5841 fare:0:4418.59 trip_start_month:0:2636 trip_start_hour:0:5135
		trip_start_day:0:1730 trip_start_timestamp:0:559918146600 pickup_latitude:2:16642.528650452
		pickup_longitude:2:-34802.0934165 dropoff_latitude:28:15550.123026246 dropoff_longitude:28:-32523.821519905
		trip_miles:0:908.06 pickup_census_tract:399:- dropoff_census_tract:101:5075331039581 payment_type:0:-
		company:142:- trip_seconds:0:290220 dropoff_community_area:28:7129 tips:0:288.43`,
	"chicago_taxi_eval.tfrecord.gz": `424 company:143:- dropoff_census_tract:124:5109401222992 dropoff_community_area:12:8589
		dropoff_latitude:12:17263.51043701172 dropoff_longitude:12:-36112.69465637207 fare:0:4886.169995546341
		payment_type:0:- pickup_census_tract:424:- pickup_community_area:0:9679 pickup_latitude:0:17766.715213775635
		pickup_longitude:0:-37167.347412109375 tips:0:391.2399990558624 trip_miles:0:1047.230004414916
		trip_seconds:0:323100 trip_start_day:0:1777 trip_start_hour:0:6026 trip_start_month:0:2699
		trip_start_timestamp:0:596710705500`,
	"a9a.libsvm": `400 label:0:-198 features:0:276294 values:0:5543`,
}

func TestKnownFiles(t *testing.T) {
	for name, figures := range known {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "known", name)
			in, err := inspect.First(path, 0)
			fatal.If(t, err)
			checkFiles(t, in.Source(), path, figures)
		})
	}
}

// checkFiles checks all columns of the files against figures, and returns their names.
func checkFiles(t *testing.T, src schema.Source, pattern, figures string) (fields []string) {
	t.Helper()
	f, err := record.OpenFiles(src, []string{pattern})
	fatal.If(t, err)
	columns := map[string]*stats.Column{}
	for _, n := range f.Fields() {
		columns[n] = stats.New(src.Missing)
	}
	w, err := f.Walk(t.Context(), f.Fields(), 1, func(lists []value.List) error {
		for i, n := range f.Fields() {
			columns[n].Add(&lists[i])
		}
		return nil
	}, nil)
	fatal.If(t, err)
	want := strings.Fields(figures)
	if got := fmt.Sprint(w.Records); got != want[0] || w.Bad != 0 {
		t.Errorf("%s records, %d bad; want %s", got, w.Bad, want[0])
	}
	for _, figure := range want[1:] {
		checkFigure(t, columns, figure)
	}
	return f.Fields()
}

// checkFigure checks a column against name:missing:sum, or name=distinct.
func checkFigure(t *testing.T, columns map[string]*stats.Column, figure string) {
	t.Helper()
	if name, n, ok := strings.Cut(figure, "="); ok {
		c := columns[name]
		if c == nil {
			t.Errorf("there is no column %s", name)
		} else if got, _ := c.Distinct(); fmt.Sprint(got) != n {
			t.Errorf("column %s: %d values that differ, not %s", name, got, n)
		}
		return
	}
	parts := strings.Split(figure, ":")
	c := columns[parts[0]]
	if c == nil {
		t.Errorf("there is no column %s", parts[0])
		return
	}
	if got := fmt.Sprint(c.Missing); got != parts[1] {
		t.Errorf("column %s: %s records without a value, want %s", parts[0], got, parts[1])
	}
	var sum float64
	if parts[2] == "-" {
		if c.Values > 0 && c.Texts() == 0 {
			t.Errorf("column %s: all of %d values are numbers, want texts", parts[0], c.Values)
		}
		return
	}
	if _, err := fmt.Sscan(parts[2], &sum); err != nil {
		t.Fatal(err)
	}
	if math.Abs(c.Sum()-sum) > 1e-7*math.Abs(sum) {
		t.Errorf("column %s: the sum is %v, want %v", parts[0], c.Sum(), sum)
	}
}

var everyCut = flag.Bool("every", false, "TestEveryCutOfKnownFiles: cut at every byte, which takes minutes")

// A file of another program, cut anywhere, gives an error that names the file, or every
// record that has begun; the last one may have a fault with its place.
func TestEveryCutOfKnownFiles(t *testing.T) {
	for name := range known {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(filepath.Join("testdata", "known", name))
			fatal.If(t, err)
			in, err := inspect.First(filepath.Join("testdata", "known", name), 0)
			fatal.If(t, err)
			begins, step := beginsOf(name, content), 1
			if !*everyCut {
				step = len(content)/50 | 1
			}
			path := filepath.Join(t.TempDir(), name)
			for n := 1; n < len(content); n += step {
				fatal.If(t, os.WriteFile(path, content[:n], 0o644))
				begun, _ := slices.BinarySearch(begins, n)
				checkCut(t, in.Source(), path, n, begun)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// beginsOf returns where the records of a known file begin, or nil if a part of the file
// does not show it.
func beginsOf(name string, content []byte) (at []int) {
	switch {
	case strings.HasSuffix(name, ".tfrecord"):
		for i := 0; i < len(content); i += 16 + int(binary.LittleEndian.Uint64(content[i:])) {
			at = append(at, i)
		}
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".libsvm"):
		i := 0
		for line := range bytes.Lines(content) {
			at = append(at, i)
			i += len(line)
		}
		if strings.HasSuffix(name, ".csv") {
			at = at[1:] // the header
		}
	}
	return at
}

// checkCut reads a file cut to n bytes, in which begun records begin.
func checkCut(t *testing.T, src schema.Source, path string, n, begun int) {
	t.Helper()
	base := filepath.Base(path)
	f, err := record.OpenFiles(src, []string{path})
	var w record.Walked
	if err == nil {
		w, err = f.Walk(t.Context(), f.Fields(), 1, func([]value.List) error { return nil }, nil)
	}
	if err != nil {
		if !strings.Contains(err.Error(), base) {
			t.Errorf("cut at %d: the error names no file: %v", n, err)
		}
		return
	}
	if w.Records+w.Bad != int64(begun) || w.Bad > 1 || w.Bad != int64(len(w.Faults)) {
		t.Errorf("cut at %d: %d records, %d bad, no error; %d have begun", n, w.Records, w.Bad, begun)
	}
	if w.Bad == 1 && (w.Faults[0].File != path || w.Faults[0].Line == 0 && w.Faults[0].Row == 0 && w.Faults[0].Offset == 0 && begun > 1) {
		t.Errorf("cut at %d: the fault has no place: %+v", n, w.Faults[0])
	}
}

// TestWalkReportsFaults: a record that cannot be read is counted and reported with its
// place, and the records around it are read.
func TestWalkReportsFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.csv")
	fatal.If(t, os.WriteFile(path, []byte("a,b\n1,2\n3\n4,5\n6,7,8\n"), 0o644))
	f, err := record.OpenFiles(schema.Source{Header: true}, []string{"file://" + path})
	fatal.If(t, err)
	var got string
	w, err := f.Walk(t.Context(), []string{"b", "a"}, 1, func(l []value.List) error {
		got += string(l[0].Append(nil, 0)) + string(l[1].Append(nil, 0)) + " "
		return nil
	}, nil)
	if err != nil || got != "21 54 " || w.Records != 2 || w.Bad != 2 || len(w.Faults) != 1 || w.Faults[0].Line != 3 {
		t.Errorf("%q, %+v, %v", got, w, err)
	}
	n := 0
	w, err = f.Walk(t.Context(), []string{"a"}, 1, func([]value.List) error { n++; return record.Stop }, nil)
	if err != nil || n != 1 || w.Records != 1 {
		t.Errorf("a walk that was ended: %d records, %+v, %v", n, w, err)
	}
	if _, err := f.Walk(t.Context(), []string{"c"}, 1, nil, nil); err == nil || !strings.Contains(err.Error(), `no field "c"`) {
		t.Error(err)
	}
}

// A check on any number of threads counts and reports the same as a walk.
func TestCheckIsWalk(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		var b strings.Builder
		b.WriteString("a,b\n")
		for n := range 20_000 {
			if b.WriteString(fmt.Sprint(n, ",", i)); n%7001 == 7000 {
				b.WriteString(",bad")
			}
			b.WriteString("\n")
		}
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".csv")), []byte(b.String()), 0o644))
	}
	f, err := record.OpenFiles(schema.Source{Header: true}, []string{dir})
	fatal.If(t, err)
	want, err := f.Walk(t.Context(), f.Fields(), 3, func([]value.List) error { return nil }, nil)
	if err != nil || want.Bad != 10 || want.Records != 99_990 {
		t.Fatalf("%+v, %v", want, err)
	}
	for _, threads := range []int{1, 2, 7, 1000} {
		got, err := f.Check(t.Context(), threads, 3, nil, nil)
		if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
			t.Errorf("%d threads: %+v, %v; a walk: %+v", threads, got, err, want)
		}
	}
	fatal.If(t, os.Truncate(filepath.Join(dir, "2.csv"), 1000))
	if _, err := f.Check(t.Context(), 4, 3, nil, nil); err == nil || !strings.Contains(err.Error(), "2.csv") {
		t.Errorf("a file that was cut: %v", err)
	}
}
