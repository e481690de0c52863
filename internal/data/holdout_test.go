package data

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// visits writes records of users at times, over several files, in no order.
func visits(t *testing.T, n int, timeOf func(i int) string) (files []string) {
	t.Helper()
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	order := rng.Perm(n)
	for f := range 5 {
		var b strings.Builder
		for _, i := range order[n*f/5 : n*(f+1)/5] {
			fmt.Fprintf(&b, "%d,user%d,%s,%d\n", i%2, i*i%97, timeOf(i), i)
		}
		files = append(files, filepath.Join(dir, fmt.Sprint(f)))
		fatal.If(t, os.WriteFile(files[f], []byte(b.String()), 0o644))
	}
	return files
}

// heldOut scans visits in parts and returns the numbers of the held-out records and of the
// others.
func heldOut(t *testing.T, files []string, parts int, field string, hold func(*Dataset) error, more ...schema.Feature) (held, trained []float32) {
	t.Helper()
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: append(more, schema.Feature{Field: "n", Encode: "raw"}), HoldOut: field}
	d, err := Open(schema.Source{Fields: []string{"y", "user", "time", "n"}}, s, files)
	fatal.If(t, err)
	fatal.If(t, hold(d))
	if d.NeedsTimes() {
		if _, err := d.Scan(context.Background(), 0, 1, nil, nil); err == nil || !strings.Contains(err.Error(), "come before Scan") {
			t.Errorf("a scan without times: %v", err)
		}
		var times Times
		for p := range parts {
			own, err := d.ScanTimes(context.Background(), p, parts, nil)
			if err == nil {
				err = times.Merge(own.Marshal())
			}
			fatal.If(t, err)
		}
		fatal.If(t, d.UseTimes(&times))
	}
	var counts Counts
	for p := range parts {
		own, err := d.Scan(context.Background(), parts-1-p, parts, nil, nil)
		if err == nil {
			err = counts.Merge(own.Marshal())
		}
		fatal.If(t, err)
	}
	fatal.If(t, d.Use(&counts))
	return numbersOf(t, d, Valid), numbersOf(t, d, Train)
}

// numbersOf reads the first number of the selected records.
func numbersOf(t *testing.T, d *Dataset, sel Select) (all []float32) {
	t.Helper()
	e := newEncoder(t, encode.NewFit(d.schema))
	for _, b := range readAll(t, d, e, ReaderConfig{GlobalBatch: 1 << 12, Select: sel}) {
		all = append(all, b.Dense...)
	}
	slices.Sort(all)
	return all
}

// TestTheNewestAreHeldOut covers every form of times, for any order of the records and any
// number of parts.
func TestTheNewestAreHeldOut(t *testing.T) {
	const n = 1000
	start := time.Date(2026, 10, 25, 3, 0, 0, 0, time.UTC)
	for name, x := range map[string]struct {
		timeOf func(i int) string
		held   int // of n
	}{
		"seconds":      {func(i int) string { return fmt.Sprint(1414000000 + i) }, 100},
		"milliseconds": {func(i int) string { return fmt.Sprint(1414000000000 + 250*i) }, 100},
		"hours":        {func(i int) string { return start.Add(time.Duration(i) * 20 * time.Minute).Format("06010215") }, 100},
		"ISO":          {func(i int) string { return start.Add(time.Duration(i) * 17 * time.Second).Format(time.RFC3339) }, 100},
		"two zones": {func(i int) string {
			return start.Add(time.Duration(i) * time.Minute).In(time.FixedZone("", 3600*(i%5))).Format(time.RFC3339)
		}, 100},
		"negative":    {func(i int) string { return fmt.Sprint(i - 950) }, 100},
		"40 at once":  {func(i int) string { return fmt.Sprint(i / 40) }, 80},       // 80 is nearer than 120, of which half would have to go
		"most at end": {func(i int) string { return fmt.Sprint(min(i, 300)) }, 700}, // one time is never split
	} {
		files := visits(t, n, x.timeOf)
		for _, parts := range []int{1, 3, 7} {
			held, trained := heldOut(t, files, parts, "time", func(d *Dataset) error { return d.HoldOutNewest("time", 0.1) })
			if len(held) != x.held || len(trained) != n-x.held || held[0] != float32(n-x.held) {
				t.Errorf("%s, %d parts: %d held out, from record %v on; want the last %d", name, parts, len(held), held[:1], x.held)
			}
		}
	}
}

// TestTheNewestByThePatternOfAFeature: dates in another format, also of digits whose order as
// numbers is another.
func TestTheNewestByThePatternOfAFeature(t *testing.T) {
	start := time.Date(2026, 10, 25, 3, 0, 0, 0, time.UTC)
	for format, layout := range map[string]string{"%m/%d/%Y %H:%M": "01/02/2006 15:04", "%d%m%Y%H%M": "020120061504"} {
		files := visits(t, 1000, func(i int) string { return start.Add(time.Duration(i) * time.Hour).Format(layout) })
		for _, parts := range []int{1, 3} {
			held, _ := heldOut(t, files, parts, "time", func(d *Dataset) error { return d.HoldOutNewest("time", 0.1) },
				schema.Feature{Field: "time", Encode: "month", Format: format})
			if len(held) != 100 || held[0] != 900 {
				t.Errorf("%s: %d held out, from record %v on", format, len(held), held[:1])
			}
		}
	}
}

// TestGroupsAreHeldOutWhole: all records of a user are on one side, the same users
// whatever the files and the parts.
func TestGroupsAreHeldOutWhole(t *testing.T) {
	timeOf := func(int) string { return "" }
	files := visits(t, 5000, timeOf)
	byUser := func(d *Dataset) error { return d.HoldOutGroups("user", 0.3, 7) }
	held, trained := heldOut(t, files, 1, "user", byUser)
	users := func(numbers []float32) map[int]bool {
		set := map[int]bool{}
		for _, x := range numbers {
			set[int(x)*int(x)%97] = true
		}
		return set
	}
	for u := range users(held) {
		if users(trained)[u] {
			t.Errorf("user %d is on both sides", u)
		}
	}
	if n := len(users(held)); n < 8 || n > 22 { // of 49, binomial
		t.Errorf("%d of 49 users are held out, 30 %% were asked for", n)
	}
	slices.Reverse(files)
	if again, _ := heldOut(t, files, 4, "user", byUser); !slices.Equal(again, held) {
		t.Errorf("with the files in another order other users are held out")
	}
	if other, _ := heldOut(t, files, 1, "user", func(d *Dataset) error { return d.HoldOutGroups("user", 0.3, 8) }); maps.Equal(users(other), users(held)) {
		t.Errorf("another seed holds out the same users")
	}
}

// TestRecordsWithoutATimeAreTrainedOn, and values that are no time are counted.
func TestRecordsWithoutATimeAreTrainedOn(t *testing.T) {
	files := visits(t, 100, func(i int) string { return []string{fmt.Sprint(i), "", "soon", "2026-11-22"}[i%4] })
	held, _ := heldOut(t, files, 2, "time", func(d *Dataset) error {
		t.Cleanup(func() {
			if d.times.Unread != 50 || d.times.All != 25 || d.times.From() != "92" {
				t.Errorf("%+v", d.times)
			}
		})
		return d.HoldOutNewest("time", 0.1)
	})
	if !slices.Equal(held, []float32{92, 96}) {
		t.Errorf("held out: %v", held)
	}
}

// TestTimesWithoutATail: times that cannot be split are an error.
func TestTimesWithoutATail(t *testing.T) {
	for values, want := range map[string]string{
		"7":    "all 20 records have the same time",
		"soon": "none of the 20 values of field time is a number or an ISO date",
		"":     "no record has a value of field time",
	} {
		times := Times{Usable: 20}
		for range 20 {
			if values != "" {
				times.add([]byte(values), 0, 0, false)
			}
		}
		d := &selection{hold: holdOut{time: "time", newest: 0.1}}
		if err := d.UseTimes(&times); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", values, err, want)
		}
	}
}

// TestNoRecordsToHoldOut: without records, the reason is what left them out, not their times.
func TestNoRecordsToHoldOut(t *testing.T) {
	files := visits(t, 10, func(i int) string { return fmt.Sprint(i) })
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "n", Encode: "raw"}}, HoldOut: "time"}
	d, err := Open(schema.Source{Fields: []string{"y", "user", "time", "n"}, Where: "time < 0"}, s, files)
	if err == nil {
		err = d.HoldOutNewest("time", 0.1)
	}
	fatal.If(t, err)
	times, err := d.ScanTimes(t.Context(), 0, 1, nil)
	if err == nil {
		err = d.UseTimes(times)
	}
	fatal.If(t, err)
	c, err := d.Scan(t.Context(), 0, 1, nil, nil)
	if err == nil {
		err = d.Use(c)
	}
	if !errors.Is(err, ErrNoRecords) || !strings.Contains(err.Error(), "data.where") {
		t.Errorf("%v", err)
	}
}

// TestSpreadIsNearTheExactTail: with more distinct values than are kept, every value is on
// the same side of the same cut, however the parts were divided.
func TestSpreadIsNearTheExactTail(t *testing.T) {
	rng, n := rand.New(rand.NewPCG(3, 4)), patient.Size(100_000, 300_000)
	for name, draw := range map[string]func() float64{
		"milliseconds": func() float64 { return 1.7e12 + float64(rng.IntN(1<<33)) },
		"normal":       rng.NormFloat64,
		"wide":         func() float64 { return math.Exp(30 * rng.NormFloat64()) },
	} {
		var whole spread
		var parts [3]spread
		var all []float64
		for i := range n {
			x := draw()
			all = append(all, x)
			whole.add(placeOf(x), 1)
			parts[i*i%7%3].add(placeOf(x), 1)
		}
		slices.Sort(all)
		cut, held, _ := whole.newest(0.1)
		if exact := all[len(all)*9/10]; math.Abs(float64(held)-float64(n)/10) > float64(n)/1000 || math.Abs(float64(len(all)-len(slices.DeleteFunc(slices.Clone(all), func(x float64) bool { return placeOf(x) >= cut })))-float64(held)) > 0 {
			t.Errorf("%s: %d held out from %v on; exactly %d from %v on", name, held, valueAt(cut), n/10, exact)
		}
		parts[2].merge(&parts[0])
		parts[2].merge(&parts[1])
		if again, also, _ := parts[2].newest(0.1); again != cut || also != held || parts[2].shift != whole.shift {
			t.Errorf("%s: merged %d from %v on, at once %d from %v on", name, also, valueAt(again), held, valueAt(cut))
		}
	}
}

func FuzzTimes(f *testing.F) {
	var t Times
	for i, text := range []string{"1", "2026-11-22", "x", "-5e300"} {
		t.add([]byte(text), 0, int32(i), i == 2)
	}
	f.Add(t.Marshal())
	f.Fuzz(func(_ *testing.T, b []byte) {
		var t Times
		if t.Merge(b) == nil {
			t.Merge(t.Marshal())
		}
	})
}

// TestAShareOfEachClassIsHeldOut: whatever the order of the classes, and the same records for any number
// of parts.
func TestAShareOfEachClassIsHeldOut(t *testing.T) {
	const n, rare = 20_000, 40 // one positive in 40 records
	for name, label := range map[string]func(i int) bool{
		"mixed":  func(i int) bool { return i*i%1009%rare == 0 },
		"apart":  func(i int) bool { return i < n/rare },
		"cycles": func(i int) bool { return i%rare == 0 },
	} {
		for _, share := range []float64{0.1, 0.03, 0.5, 0.37} {
			var b strings.Builder
			positives := 0
			for i := range n {
				y := 0
				if label(i) {
					y = 1
					positives++
				}
				fmt.Fprintf(&b, "%d,u,t,%d\n", y, i)
			}
			file := filepath.Join(t.TempDir(), "x")
			fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
			first := []float32(nil)
			for _, parts := range []int{1, 4} {
				held, trained := heldOut(t, []string{file}, parts, "", func(d *Dataset) error { return HoldOutByLabel(d, share, 5) })
				ones := 0
				for _, x := range held {
					if label(int(x)) {
						ones++
					}
				}
				if len(held)+len(trained) != n || math.Abs(float64(ones)-share*float64(positives)) > 0.03*share*float64(positives)+2 || math.Abs(float64(len(held))-share*n) > 0.03*share*n+4 {
					t.Errorf("%s, share %g: %d records and %d of %d positives", name, share, len(held), ones, positives)
				}
				if first == nil {
					first = held
				}
				if !slices.Equal(held, first) {
					t.Errorf("%s, share %g: %d parts hold out other records", name, share, parts)
				}
			}
			other, _ := heldOut(t, []string{file}, 1, "", func(d *Dataset) error { return HoldOutByLabel(d, share, 6) })
			if slices.Equal(other, first) {
				t.Errorf("%s, share %g: another seed holds out the same records", name, share)
			}
		}
	}
}
