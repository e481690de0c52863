package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/trace"
)

// job is a training with known times: phases take the time that work returns, and no rank
// leaves an exchange before all have entered it.
type job struct {
	ranks, steps int
	work         func(rank, step int, p trace.Phase) float64 // µs
	clock        func(rank int, at float64) float64          // of a rank, at a true time
	host         func(rank int) string
	zero         bool // files of versions that number processes and lanes from 0
	old          bool // files of versions without headers and calls; also zero
}

// flight is the duration of an exchange after its last rank has entered, in µs.
const flight = 20

// write runs the job and writes its files.
func (j job) write(t testing.TB, dir string) {
	t.Helper()
	if j.clock == nil {
		j.clock = func(_ int, at float64) float64 { return at }
	}
	if j.host == nil {
		j.host = func(int) string { return "one" }
	}
	first := trace.First
	if j.zero || j.old {
		first = 0
	}
	files, now := make([]strings.Builder, j.ranks), make([]float64, j.ranks)
	for r := range files {
		now[r] = float64(1000 * r)
		origin := j.clock(r, now[r])
		if j.old {
			fmt.Fprintf(&files[r], `[{"name":"process_name","ph":"M","pid":%d,"args":{"name":"rank %d"}}`, first+r, r)
			continue
		}
		h, _ := json.Marshal(trace.Header{Rank: r, Size: j.ranks, Host: j.host(r), Clock: "boot of " + j.host(r), MonotonicNs: int64(1e3 * origin)})
		fmt.Fprintf(&files[r], `[{"name":%q,"ph":"M","pid":%d,"args":%s}`, trace.HeaderName, first+r, h)
	}
	seq := 0
	for step := 1; step <= j.steps; step++ {
		for p := trace.Input; p <= trace.Update; p++ {
			start := append([]float64(nil), now...)
			enters := 0.0
			for r := range now {
				now[r] += j.work(r, step, p)
				enters = max(enters, now[r])
			}
			calls := make([]string, j.ranks)
			if p.Waits() {
				seq++
				for r := range now {
					calls[r] = fmt.Sprintf(`"calls":[%d,%.1f]`, seq, j.clock(r, now[r])-j.clock(r, start[r]))
					now[r] = enters + flight
				}
			}
			for r := range now {
				if j.old {
					calls[r] = ""
				}
				args := ""
				if p == trace.Input || j.old { // later phases have the step of the one before
					args = fmt.Sprintf(`,"args":{"step":%d}`, step)
				} else if calls[r] != "" {
					args = fmt.Sprintf(`,"args":{%s%s}`, counts(p), calls[r])
				}
				ts := j.clock(r, start[r]) - j.clock(r, float64(1000*r))
				fmt.Fprintf(&files[r], ",\n"+`{"name":"%v","ph":"X","ts":%.1f,"dur":%.1f,"pid":%d,"tid":%d%s}`,
					p, ts, j.clock(r, now[r])-j.clock(r, start[r]), first+r, first, args)
			}
		}
	}
	for r := range files {
		if !j.old {
			fmt.Fprintf(&files[r], `,{"name":"sync, bucket 1","ph":"X","ts":0,"dur":50,"pid":%d,"tid":%d,"args":{"step":1,"bytes":400}}`, first+r, first+1)
			fmt.Fprintf(&files[r], `,{"name":"read","ph":"X","ts":0,"dur":50,"pid":%d,"tid":%d,"args":{"step":1,"batches":8}}`, first+r, first+3)
			fmt.Fprintf(&files[r], `,{"name":"write","ph":"X","ts":70,"dur":50,"pid":%d,"tid":%d,"args":{"step":1}}`, first+r, first+4)
		}
		files[r].WriteString("]\n")
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("trace-%04d.json", r)), []byte(files[r].String()), 0o644))
	}
}

// counts returns the arguments of a phase that moves rows.
func counts(p trace.Phase) string {
	switch p {
	case trace.Pull:
		return `"bytes":123456,"rows":1234,`
	case trace.Push:
		return `"bytes":234567,`
	case trace.Sync:
		return `"bytes":345678,`
	}
	return ""
}

// straggler is a job of four ranks with rank 1 late: by input in 4 of 10 steps, by
// compute in 2 of 10.
func straggler() job {
	return job{ranks: 4, steps: 500, work: func(rank, step int, p trace.Phase) float64 {
		late := rank == 1
		switch {
		case late && p == trace.Input && step%10 < 4:
			return 700
		case late && p == trace.Compute && (step%10 == 4 || step%10 == 5):
			return 900
		case p == trace.Input:
			return 5
		case p == trace.Compute:
			return 400 + float64(rank)
		case p == trace.Update:
			return 50
		}
		return 10 // keys, before an exchange
	}}
}

func analysed(t *testing.T, j job) Analysis {
	t.Helper()
	dir := t.TempDir()
	j.write(t, dir)
	tl, err := Open(dir)
	fatal.If(t, err)
	return tl.Analyse()
}

// named checks the straggler's shares.
func named(t *testing.T, a Analysis) {
	t.Helper()
	if len(a.Late) == 0 || a.Late[0].Rank != 1 || a.Steps != 500 || !a.Stands() {
		t.Fatalf("%+v", a)
	}
	l := a.Late[0]
	if math.Abs(l.Share-0.6) > 0.05 || len(l.Causes) < 2 || l.Causes[0].Phase != "input" || math.Abs(l.Causes[0].Share-0.4) > 0.05 ||
		l.Causes[1].Phase != "compute" || math.Abs(l.Causes[1].Share-0.2) > 0.05 {
		t.Errorf("late %+v, want 60 %%: input 40 %%, compute 20 %%", l)
	}
	const delay = (200*(700-5) + 100*(900-403)) * 1e-6
	if math.Abs(l.Seconds-delay) > 0.05*delay {
		t.Errorf("delays of %v s, want %v", l.Seconds, delay)
	}
}

func TestAStragglerIsNamedWithItsShare(t *testing.T) {
	a := analysed(t, straggler())
	named(t, a)
	if a.ClockError != 0 || len(a.Faults) != 0 {
		t.Errorf("clock error %v, faults %q", a.ClockError, a.Faults)
	}
	for _, r := range a.Ranks {
		if r.Rank != 1 && (r.For != 1 || math.Abs(r.ForTime-a.Late[0].Seconds) > 0.03*r.ForTime) {
			t.Errorf("rank %d waited %v s for rank %d, want %v s for rank 1", r.Rank, r.ForTime, r.For, a.Late[0].Seconds)
		}
	}
	var b strings.Builder
	fatal.If(t, a.Write(&b))
	golden.Check(t, "straggler.txt", b.String())
}

// TestClocksOfHostsAreAligned: ranks 2 and 3 are on a host whose clock is 5 s ahead and
// gains 40 millionths.
func TestClocksOfHostsAreAligned(t *testing.T) {
	j := straggler()
	j.host = func(r int) string { return []string{"a", "b"}[r/2] }
	j.clock = func(r int, at float64) float64 {
		if r < 2 {
			return at
		}
		return 5e6 + at + 40e-6*at
	}
	dir := t.TempDir()
	j.write(t, dir)
	tl, err := Open(dir)
	fatal.If(t, err)
	named(t, tl.Analyse())
	for _, r := range tl.Ranks {
		if most := int64(2 * flight * 1e3); (r.Error == 0) != (r.Rank < 2) || r.Error > most {
			t.Errorf("rank %d: clock error %d ns, want at most %d", r.Rank, r.Error, most)
		}
	}
	// Compute begins at the same true time on all ranks.
	for _, s := range tl.steps {
		var at [4]int64
		for r, rank := range tl.Ranks {
			for _, x := range rank.Spans[s.at[r].lo:s.at[r].hi] {
				if x.Phase == trace.Compute {
					at[r] = x.Start
				}
			}
		}
		for r := range at {
			if d := at[r] - at[0]; d > flight*1e3 || d < -flight*1e3 {
				t.Fatalf("step %d: compute of rank %d begins %d ns after rank 0's", s.number, r, d)
			}
		}
	}
}

// TestFilesOfEarlierVersions number processes and lanes from 0. The first versions wrote no header
// and no calls, and every rank had its own zero.
func TestFilesOfEarlierVersions(t *testing.T) {
	j := straggler()
	j.zero = true
	named(t, analysed(t, j))
	j.old = true
	a := analysed(t, j)
	named(t, a)
	if a.ClockError == 0 {
		t.Error("no clock error, though the clocks are not known")
	}
}

// TestOlderSpansThatAreLeftOutAreReported: ranks keep their last spans only.
func TestOlderSpansThatAreLeftOutAreReported(t *testing.T) {
	dir := t.TempDir()
	straggler().write(t, dir)
	ranks, _, err := Read(dir)
	fatal.If(t, err)
	ranks[1].Dropped, ranks[2].Dropped = 700, 12
	a := newTimeline(ranks, nil).Analyse()
	want := "the timelines begin at step 1: ranks keep their last spans, and 700 older ones of rank 1 are left out"
	var b strings.Builder
	fatal.If(t, a.Write(&b))
	if a.LeftOut != want || !strings.Contains(b.String(), "note: "+want+"\n") {
		t.Errorf("%q, want %q in\n%s", a.LeftOut, want, b.String())
	}
}

// TestAMissingRankIsNamed: a rank without a timeline may have been the last everywhere, so
// no other rank is blamed and no speed-up is computed.
func TestAMissingRankIsNamed(t *testing.T) {
	for _, gone := range [][]int{{0}, {1}, {0, 2, 3}} {
		dir := t.TempDir()
		straggler().write(t, dir)
		for _, r := range gone {
			fatal.If(t, os.Remove(filepath.Join(dir, fmt.Sprintf("trace-%04d.json", r))))
		}
		tl, err := Open(dir)
		fatal.If(t, err)
		a := tl.Analyse()
		var b strings.Builder
		fatal.If(t, a.Write(&b))
		want := fmt.Sprintf("the rank that the others waited for is not known: rank %d left no usable timeline\n", gone[0])
		if len(gone) == 3 {
			want = "the rank that the others waited for is not known: ranks 0, 2 and 3 left no usable timeline\n"
		}
		if text := b.String(); !slices.Equal(a.Missing, gone) || a.Steps != 500 || !strings.HasPrefix(text, want) ||
			len(a.Late) > 0 || strings.Contains(text, "times as fast") || strings.Contains(text, "no late rank") {
			t.Errorf("without %v: missing %v, late %+v\n%s", gone, a.Missing, a.Late, text)
		}
	}
}

func TestBalancedRanksStandOutNowhere(t *testing.T) {
	j := straggler()
	j.work = func(rank, step int, p trace.Phase) float64 { return 100 + 10*float64((rank+step)%4) }
	if a := analysed(t, j); a.Stands() || !strings.HasPrefix(a.Verdict(), "no rank stands out") {
		t.Errorf("%s", a.Verdict())
	}
	j.ranks = 1
	if a := analysed(t, j); a.Stands() || !strings.Contains(a.Verdict(), "one rank") {
		t.Errorf("%s", a.Verdict())
	}
}

// TestFewStepsNameNoRank: in a few steps any rank may be late.
func TestFewStepsNameNoRank(t *testing.T) {
	for steps, want := range map[int]string{2: "2 steps are too few to tell", 19: "19 steps are too few to tell", 20: "steps waited for rank 1"} {
		j := straggler()
		j.steps = steps
		a := analysed(t, j)
		var b strings.Builder
		fatal.If(t, a.Write(&b))
		if few := steps < 20; !strings.Contains(a.Verdict(), want) || few == strings.Contains(b.String(), "times as fast") || few == strings.Contains(b.String(), "steps that waited for a rank") {
			t.Errorf("%d steps: %s", steps, b.String())
		}
	}
}

// TestAProbableRankIsNamed: a rank that delays the others more than the next one, but less than twice
// as much, is probably the one. The numbers of rows can refute a cause.
func TestAProbableRankIsNamed(t *testing.T) {
	j := straggler()
	j.work = func(rank, step int, p trace.Phase) float64 {
		if p == trace.Update && (rank == 1 && step%5 < 3 || rank == 2 && step%5 >= 3) {
			return 500
		}
		return 100
	}
	a := analysed(t, j)
	if want := "probably rank 1 on host one: 60 % of 500 steps waited for it (update 60 %), and 40 % for rank 2"; a.Stands() || a.Verdict() != want {
		t.Errorf("%q, want %q", a.Verdict(), want)
	}
	for _, c := range []struct {
		rows []int64
		want string
	}{{nil, "it owns more rows"}, {[]int64{100, 150, 100, 100}, "it owns more rows"}, {[]int64{100, 102, 100, 100}, "it owns 1.01 times the mean number of rows, which does not explain it: "}} {
		if a.Rows = c.rows; !strings.HasPrefix(a.Advice(), c.want) {
			t.Errorf("rows %v: %q, want %q", c.rows, a.Advice(), c.want)
		}
	}
}

// TestFaultyFiles: each is named with what is wrong, and the others are used.
func TestFaultyFiles(t *testing.T) {
	dir := t.TempDir()
	j := straggler()
	j.ranks, j.steps = 6, 50
	j.write(t, dir)
	name := func(r int) string { return filepath.Join(dir, fmt.Sprintf("trace-%04d.json", r)) }
	whole, err := os.ReadFile(name(2))
	fatal.If(t, err)
	for r, text := range map[int]string{
		2: string(whole[:len(whole)/2]),
		3: "<html>\x00",
		4: strings.Replace(string(whole), `"pid":3`, `"pid":77777777`, 1),
		5: strings.ReplaceAll(strings.ReplaceAll(string(whole), `"pid":3`, `"pid":6`), `"rank":2,"size":6`, `"rank":5,"size":9`),
	} {
		fatal.If(t, os.WriteFile(name(r), []byte(text), 0o644))
	}
	tl, err := Open(dir)
	fatal.If(t, err)
	a := tl.Analyse()
	if a.Steps < 20 || a.Steps > 30 || len(a.Ranks) != 3 {
		t.Errorf("%d steps of %d ranks, want about 25 of 3", a.Steps, len(a.Ranks))
	}
	if !slices.Equal(a.Missing, []int{3, 4, 5}) {
		t.Errorf("missing ranks %v, want 3, 4 and 5", a.Missing)
	}
	golden.Check(t, "faults.txt", strings.Join(a.Faults, "\n")+"\n")
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no trace-*.json") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there is read")
	}
}

// mergedEvent is an event of a merged trace.
type mergedEvent struct {
	Name, Ph     string
	Ts, Dur      float64
	Pid, Tid, ID int
	Args         struct {
		Step, Bytes, Rows, Batches int64
		Name                       string
	}
}

// mergedEvents returns the merged trace of the straggler.
func mergedEvents(t *testing.T) (events []mergedEvent) {
	t.Helper()
	dir := t.TempDir()
	straggler().write(t, dir)
	tl, err := Open(dir)
	fatal.If(t, err)
	r, w := io.Pipe()
	go func() {
		cut, err := tl.Merge(w)
		if cut != 0 {
			err = fmt.Errorf("%d events are left out", cut)
		}
		w.CloseWithError(err)
	}()
	z, err := gzip.NewReader(r)
	fatal.If(t, err)
	fatal.If(t, json.NewDecoder(z).Decode(&events))
	return events
}

// TestMerged: spans of a lane nest, and each arrow has both ends.
func TestMerged(t *testing.T) {
	ends, open, from, spans := map[[2]int]float64{}, map[int]int{}, map[int]int{}, 0
	for _, e := range mergedEvents(t) {
		switch e.Ph {
		case "X":
			spans++
			lane := [2]int{e.Pid, e.Tid}
			if e.Pid < 1 || e.Pid > 4 || e.Tid < 1 || e.Tid > 5 {
				t.Fatalf("%+v, want processes 1 to 4 and threads 1 to 5", e)
			}
			if e.Ts < ends[lane] {
				t.Fatalf("%+v begins before %v, where the span before it ends", e, ends[lane])
			}
			ends[lane] = e.Ts + e.Dur
		case "s":
			from[e.Pid]++
			open[e.ID]++
		case "f":
			open[e.ID]--
		}
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("arrow %d has one end", id)
		}
	}
	if from[2] != 3*299 || from[4] != 3 { // rank 3 is the last to start
		t.Errorf("arrows leave processes %v", from)
	}
	if len(open) != 3*300 || spans < 4*6*500 {
		t.Errorf("%d arrows and %d spans, want %d and at least %d", len(open), spans, 3*300, 4*6*500)
	}
}

// TestLanes: the merged trace has the lanes and arguments of the files.
func TestLanes(t *testing.T) {
	lanes, sums := map[string]int{}, map[string]int64{}
	for _, e := range mergedEvents(t) {
		if e.Name == "thread_name" {
			lanes[e.Args.Name] = e.Tid
		}
		sums[e.Name+" bytes"] += e.Args.Bytes
		sums[e.Name+" rows"] += e.Args.Rows
		sums[e.Name+" batches"] += e.Args.Batches
		sums[fmt.Sprintf("%s in lane %d", e.Name, e.Tid)]++
	}
	for what, want := range map[string]int64{
		"pull bytes": 4 * 500 * 123456, "pull rows": 4 * 500 * 1234, "push bytes": 4 * 500 * 234567, "compute bytes": 0,
		"sync bytes": 4 * 500 * 345678, "sync, bucket 1 bytes": 4 * 400, "sync, bucket 1 in lane 2": 4,
		"read in lane 4": 4, "read batches": 4 * 8, "write in lane 5": 4,
	} {
		if sums[what] != want {
			t.Errorf("%s: %d, want %d", what, sums[what], want)
		}
	}
	if lanes["phases"] != 1 || lanes["reader"] != 4 || lanes["checkpoint"] != 5 {
		t.Errorf("lanes %v", lanes)
	}
}

// BenchmarkManyRanks reads and analyses the timelines of 32 ranks with 10,000 steps each,
// fewer without -whole, and writes them as one.
func BenchmarkManyRanks(b *testing.B) {
	dir := b.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	j := job{ranks: patient.Size(4, 32), steps: patient.Size(500, 10_000), work: func(rank, _ int, p trace.Phase) float64 {
		if rank == 3 && p == trace.Compute {
			return 300 + 100*rng.Float64()
		}
		return 20 + 100*rng.Float64()
	}}
	j.write(b, dir)
	size := 0.0
	all, _ := filepath.Glob(filepath.Join(dir, Pattern)) // the pattern is well formed
	for _, path := range all {
		info, err := os.Stat(path)
		fatal.If(b, err)
		size += float64(info.Size())
	}
	for b.Loop() {
		t, err := Open(dir)
		fatal.If(b, err)
		if a := t.Analyse(); a.Late[0].Rank != 3 {
			b.Fatalf("%+v", a.Late)
		}
		if _, err := t.Merge(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(size/1e6, "MB")
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	j := straggler()
	j.ranks, j.steps = 2, 2
	j.write(f, dir)
	j.old = true
	for _, name := range []string{"trace-0000.json", "trace-0001.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		fatal.If(f, err)
		f.Add(string(b))
	}
	f.Add(`[{"name":"wdlrun_rank","ph":"M","pid":-1,"args":{"rank":-2,"size":1}},{"name":"sync","ph":"X","ts":1,"dur":2,"pid":0,"tid":1,"args":{"step":1}}]`)
	f.Add(`[{"name":"sync","ph":"X","ts":1e9,"dur":2,"pid":0,"tid":0,"args":{"step":1,"calls":[1,0.5,2,1]}},{"name":"update","ph":"X","ts":0,"dur":5,"pid":0,"tid":0,"args":{"step":1}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		other, err := parse(strings.NewReader(text))
		fatal.If(t, err)
		other.Rank, other.Clock = r.Rank+1, ""
		tl := newTimeline([]*Rank{r, other}, nil)
		a := tl.Analyse()
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, a.Write(io.Discard))
		if _, err := tl.Merge(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
