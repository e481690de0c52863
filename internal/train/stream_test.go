package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// drop adds a file of clicks to a folder atomically, by renaming.
func drop(t testing.TB, dir, name string, rows int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	var b strings.Builder
	b.WriteString("click,site\n")
	for range rows {
		site := rng.IntN(30)
		fmt.Fprintf(&b, "%d,site%d\n", min(rng.IntN(30)/(site+1), 1), site)
	}
	tmp := filepath.Join(dir, name+".part")
	fatal.If(t, os.WriteFile(tmp, []byte(b.String()), 0o644))
	fatal.If(t, os.Rename(tmp, filepath.Join(dir, name)))
}

func mark(t testing.TB, dir string) {
	t.Helper()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "_SUCCESS"), nil, 0o644))
}

// streamConfig returns a configuration that trains on the files of a growing folder; follow
// and train are appended to these sections.
func streamConfig(t testing.TB, dir, follow, train string) *config.Config {
	t.Helper()
	c, err := config.Parse("stream.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], header: true, follow: {on: true, poll: 0.01%s}}
label: {field: click}
features: [{field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, seed: 5, checkpoint: {every_steps: 1, keep: 1000}%s}
`, dir, follow, train)))
	fatal.If(t, err)
	return c
}

// days writes five files, one of them without records and one empty, and then the mark of the
// end.
func days(t testing.TB) (dir string, rows int64) {
	dir = t.TempDir()
	for i, n := range []int{50, 7, 0, 33, 64} {
		drop(t, dir, fmt.Sprintf("day-%d.csv", i), n, uint64(i))
		rows += int64(n)
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "day-5.csv"), nil, 0o644))
	mark(t, dir)
	return dir, rows
}

// last returns the parts of the last checkpoint of a run.
func last(t testing.TB, r report.Result) (parts [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.Checkpoint, "rank-*.wck"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no parts in %q: %v", r.Checkpoint, err)
	}
	for _, n := range names {
		parts = append(parts, read(t, n))
	}
	return parts
}

// TestStreamOfFolders: every row is trained on once on any number of ranks, files without
// records are skipped, and the mark ends the stream.
func TestStreamOfFolders(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, rows := days(t)
	for size := 1; size <= 3; size++ {
		res := runJob(t, size, Options{Config: streamConfig(t, "file://"+dir, ", files: 2", "")})
		if res.Samples != rows || res.Spans != 3 || !strings.Contains(res.Ended, "end mark") || res.Stopped {
			t.Errorf("%d ranks: %+v, want %d samples in 3 spans", size, res, rows)
		}
	}
}

// TestResumeInAStreamGivesTheSameBits resumes from the checkpoint of every step and compares
// the bytes with the bytes of the uninterrupted training.
func TestResumeInAStreamGivesTheSameBits(t *testing.T) {
	patient.Long(t)
	everyday(t)
	t.Parallel()
	dir, rows := days(t)
	opt := Options{Config: streamConfig(t, dir, ", files: 2", "")}
	whole := runJob(t, 2, opt)
	seldom := []string{"train.checkpoint.every_steps=100"}
	opt.Set = seldom
	want := last(t, runJob(t, 2, opt))
	for step := int64(1); step <= whole.Steps; step++ {
		from := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), step)
		again := runJob(t, 2, Options{Resume: from, Set: seldom})
		if again.Samples != rows || again.Spans != whole.Spans || !reflect.DeepEqual(last(t, again), want) {
			t.Errorf("from step %d: %+v, uninterrupted %+v", step, again, whole)
		}
		if step%4 != 0 {
			continue
		}
		if other := runJob(t, 3, Options{Resume: from, Set: seldom}); other.Samples != rows || other.Steps != whole.Steps {
			t.Errorf("from step %d on 3 ranks: %+v", step, other)
		}
	}
}

// TestStreamSavesEachSpan: at the end of each span its loss is printed, and an incremental
// checkpoint is begun from which the stream can resume.
func TestStreamSavesEachSpan(t *testing.T) {
	dir, rows := days(t)
	var mu sync.Mutex
	var told []string
	opt := Options{Config: streamConfig(t, dir, ", files: 2", ""), Out: t.TempDir(), Set: []string{"train.checkpoint.every_steps=100"}, Say: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "span ") {
			told = append(told, line)
		}
	}}
	whole := runJob(t, 2, opt)
	ends := []int64{4, 7, 11} // 57, 33 and 64 rows in steps of 16
	if len(told) != len(ends) {
		t.Fatalf("printed %q", told)
	}
	for i, end := range ends {
		c, err := checkpoint.Open(checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), end))
		fatal.If(t, err)
		var at cursor
		fatal.If(t, save.ReadJSON(c, save.SectionCursor, &at))
		if at.Consumed != 0 || len(at.Stream.Span) > 0 || at.Data != "" || at.LastLoss <= 0 {
			t.Errorf("after span %d: %+v, %+v", i+1, at, at.Stream)
		}
		if want := fmt.Sprintf("span %d, ", at.Stream.Spans); !strings.HasPrefix(told[i], want) || !strings.HasSuffix(told[i], fmt.Sprintf("log-loss %.4f", at.LastLoss)) {
			t.Errorf("printed %q for a loss of %v", told[i], at.LastLoss)
		}
		if builds := len(c.Chain()) > 1; builds != (i == 1) {
			t.Errorf("span %d: the checkpoint is incremental: %v", i+1, builds) // the first one is always full, and so is the last one
		}
		if again := runJob(t, 2, Options{Resume: c.Dir(), Set: opt.Set}); again.Samples != rows || !reflect.DeepEqual(last(t, again), last(t, whole)) {
			t.Errorf("from the end of span %d: %+v, uninterrupted %+v", i+1, again, whole)
		}
	}
}

// TestStreamEvaluatesEverySoManySpans: train.eval_every counts spans, and the end of the
// stream is evaluated too.
func TestStreamEvaluatesEverySoManySpans(t *testing.T) {
	t.Parallel()
	dir, _ := days(t)
	valid := t.TempDir()
	drop(t, valid, "valid.csv", 40, 9)
	for every, want := range map[int][]int64{1: {4, 7, 11}, 2: {7, 11}, 3: {11}, 4: {11}} {
		c := streamConfig(t, dir, ", files: 2", fmt.Sprintf(", eval_every: %d", every))
		c.Data.Valid = []string{filepath.Join(valid, "valid.csv")}
		res := runJob(t, 2, Options{Config: c})
		var steps []int64
		for _, l := range lines(t, res.RunDir, "valid") {
			steps = append(steps, l.Step)
		}
		if !slices.Equal(steps, want) || res.ValidLogLoss == nil {
			t.Errorf("eval_every %d: evaluated after the steps %v, want %v", every, steps, want)
		}
	}
}

// TestStreamIsCutAgainAsBefore: data read after the last checkpoint is read again in the same
// spans, even if files, or rows in a file of the current span, were added.
func TestStreamIsCutAgainAsBefore(t *testing.T) {
	everyday(t)
	t.Parallel()
	dir := t.TempDir()
	for i := range 4 {
		drop(t, dir, fmt.Sprint(i, ".csv"), 40, uint64(i))
	}
	opt := Options{Config: streamConfig(t, dir, ", files: 2, idle: 0.05", "")}
	first := runJob(t, 2, opt)
	if first.Spans != 2 || first.Samples != 160 || !strings.Contains(first.Ended, "nothing new") {
		t.Fatalf("%+v", first)
	}
	root := filepath.Join(first.RunDir, checkpoint.Folder)
	for step := int64(3); step <= first.Steps; step++ {
		fatal.If(t, os.RemoveAll(checkpoint.Dir(root, step)))
	}
	for i := range 3 {
		drop(t, dir, fmt.Sprint(i+4, ".csv"), 40, uint64(i))
	}
	addTo(t, filepath.Join(dir, "0.csv"), 5)
	again := runJob(t, 2, Options{Resume: first.RunDir, Set: []string{"data.follow.files=10"}})
	if again.Samples != 7*40+5 || again.RunDir != first.RunDir {
		t.Errorf("%+v", again)
	}
	spans, err := input.ReadSpans(filepath.Join(first.RunDir, input.FileSpans))
	fatal.If(t, err)
	var cuts []int
	for _, s := range spans {
		cuts = append(cuts, len(s.Span))
	}
	if !slices.Equal(cuts, []int{2, 2, 4}) {
		t.Errorf("spans of %v files", cuts)
	}
}

// TestStreamGrows: files added during the training are trained on.
func TestStreamGrows(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "0.csv", 20, 0)
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(10), Options{Config: streamConfig(t, dir, "", ""), Out: t.TempDir()})
		var writer sync.WaitGroup
		defer writer.Wait()
		if comm.Rank() == 0 {
			writer.Go(func() {
				for i := 1; i < 4; i++ {
					eventually(t, "the second step of a file", func() bool { return j.Status().Step >= 2*int64(i) })
					drop(t, dir, fmt.Sprint(i, ".csv"), 20, uint64(i))
				}
				mark(t, dir)
			})
		}
		r, err := j.Run(context.Background())
		if err == nil && (r.Samples != 80 || r.Spans != 4) {
			err = fmt.Errorf("%d samples in %d spans, want 80 in 4", r.Samples, r.Spans)
		}
		return err
	})
}

// addTo appends rows of clicks to a file and returns their number of bytes.
func addTo(t testing.TB, path string, rows int) int {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer f.Close()
	n, err := f.WriteString(strings.Repeat("1,site3\n", rows))
	if err != nil {
		t.Error(err)
	}
	return n
}

// TestStreamOfASlowWriter: a file that grows after it was read is reported and reading
// continues, even if it grew while no process ran. A replaced file is reported.
func TestStreamOfASlowWriter(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 3; size += 2 {
		dir, out := t.TempDir(), t.TempDir()
		drop(t, dir, "0.csv", 20, 0)
		drop(t, dir, "1.csv", 20, 1)
		var mu sync.Mutex
		var warned []string
		warn := func(line string) { mu.Lock(); warned = append(warned, line); mu.Unlock() }
		var run string
		traintest.OnRanks(t, size, func(comm *collective.Comm) error {
			j := NewJob(comm, trace.New(10), Options{Config: streamConfig(t, dir, "", ""), Out: out, Warn: warn})
			var writer sync.WaitGroup
			defer writer.Wait()
			if comm.Rank() == 0 {
				writer.Go(func() {
					eventually(t, "the end of the first span", func() bool { return j.Status().Step >= 3 })
					addTo(t, filepath.Join(dir, "0.csv"), 9)
					eventually(t, "the end of the second span", func() bool { return j.Status().Step >= 4 })
					drop(t, dir, "1.csv", 30, 2)
					mark(t, dir)
				})
			}
			r, err := j.Run(context.Background())
			if err == nil && (r.Samples != 49 || r.Spans != 2) {
				err = fmt.Errorf("%d samples in %d spans, want 49 in 2", r.Samples, r.Spans)
			}
			if comm.Rank() == 0 {
				run = r.RunDir
			}
			return err
		})
		for _, want := range []string{"0.csv grew by 72 bytes after it had been read; they are read now.", "1.csv was replaced after it had been read; its "} {
			if !slices.ContainsFunc(warned, func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("%d ranks: warnings %q, want %q", size, warned, want)
			}
		}
		addTo(t, filepath.Join(dir, "0.csv"), 5)
		if r := runJob(t, 2, Options{Resume: run}); r.Samples != 54 {
			t.Errorf("%d ranks: %d samples after the resume, want 54", size, r.Samples)
		}
	}
}

// eventually waits until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patient.Longest); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("timed out waiting for %s", what)
			return
		}
	}
}

// TestStreamStops: a stream stops after a number of steps, or on request while it waits. The
// rest is read after a resume.
func TestStreamStops(t *testing.T) {
	dir, rows := days(t)
	os.Remove(filepath.Join(dir, "_SUCCESS"))
	res := runJob(t, 2, Options{Config: streamConfig(t, dir, ", steps: 3", "")})
	if res.Steps != 3 || res.Samples != 48 || res.Stopped || !strings.Contains(res.Ended, "3 steps") {
		t.Fatalf("%+v", res)
	}
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(10), Options{Resume: res.RunDir, Set: []string{"data.follow.steps=0"}})
		if comm.Rank() == 1 {
			go func() { // after all data is read and the stream waits
				last := checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), (rows+15)/16)
				eventually(t, "a checkpoint of all", func() bool {
					_, err := checkpoint.Open(last)
					return err == nil
				})
				time.Sleep(50 * time.Millisecond)
				j.RequestStop()
			}()
		}
		r, err := j.Run(context.Background())
		if err == nil && (!r.Stopped || r.Samples != rows) {
			err = fmt.Errorf("stopped %v after %d samples of %d", r.Stopped, r.Samples, rows)
		}
		if at := j.Status(); err == nil && (at.Span != r.Spans || at.Epoch != 0) {
			err = fmt.Errorf("the status has span %d, epoch %d, after %d spans", at.Span, at.Epoch, r.Spans)
		}
		return err
	})
	drop(t, dir, "day-6.csv", 30, 9)
	mark(t, dir)
	if r := runJob(t, 1, Options{Resume: res.RunDir, Set: []string{"data.follow.steps=0"}}); r.Samples != rows+30 {
		t.Errorf("%+v, want %d samples", r, rows+30)
	}
}

// TestQuietStreamIsSaved: if no data follows a span, its checkpoint is written all the same. A
// requested checkpoint is reported and is not written again at the next interval.
func TestQuietStreamIsSaved(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	drop(t, dir, "0.csv", 40, 1)
	told := make(chan string, 1000)
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		opt := Options{Config: streamConfig(t, dir, "", ""), Out: out, Say: func(line string) { told <- line }}
		opt.Set = []string{"train.checkpoint.every_steps=4", "train.checkpoint.every_seconds=1"} // step 4 is never reached
		j := NewJob(comm, trace.New(10), opt)
		var user sync.WaitGroup
		defer user.Wait()
		if comm.Rank() == 1 {
			user.Go(func() {
				var was, is os.FileInfo
				stat := func() (st os.FileInfo) {
					all, _ := filepath.Glob(filepath.Join(out, "2*", checkpoint.Folder, "step-*3"))
					if len(all) == 1 {
						st, _ = os.Stat(all[0])
					}
					return st
				}
				eventually(t, "the checkpoint of a span", func() bool { was = stat(); return was != nil })
				time.Sleep(1200 * time.Millisecond) // the checkpoint is older than the interval
				j.RequestCheckpoint()
				eventually(t, "an answer", func() bool {
					return len(told) > 0 && strings.HasPrefix(<-told, "checkpoint of step 3 is written: ")
				})
				if is = stat(); was == nil || is == nil || !os.SameFile(was, is) || !is.ModTime().Equal(was.ModTime()) {
					t.Error("the checkpoint was written again")
				}
				j.RequestStop()
			})
		}
		r, err := j.Run(context.Background())
		if err == nil && (!r.Stopped || r.Checkpoint == "") {
			err = fmt.Errorf("%+v, want a checkpoint", r)
		}
		return err
	})
}

// TestQuietStreamPublishesOnce: while no data follows a span, its version is not published
// again.
func TestQuietStreamPublishesOnce(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, models := t.TempDir(), filepath.Join(t.TempDir(), "models")
	drop(t, dir, "0.csv", 40, 1)
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		opt := Options{Config: streamConfig(t, dir, "", ""), Out: t.TempDir()}
		opt.Set = []string{"data.follow.idle=4", "train.export.every_seconds=1", "train.export.dir=" + models}
		opt.Warn = func(line string) { t.Error(line) }
		_, err := NewJob(comm, trace.New(10), opt).Run(context.Background())
		return err
	})
	if all := published(t, models); len(all) == 0 || all[len(all)-1] != 3 {
		t.Errorf("versions %v, want 3", all)
	}
}

// TestQuietStreamSavesAgain: a checkpoint that failed because the disk was full can be
// requested while no data arrives.
func TestQuietStreamSavesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	drop(t, dir, "0.csv", 40, 1)
	told, warned := make(chan string, 1000), make(chan string, 1000)
	spec, err := chaos.Parse("diskfull@step3")
	fatal.If(t, err)
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(10), Options{
			Config: streamConfig(t, dir, "", ""), Out: t.TempDir(), Chaos: spec, Set: []string{"train.checkpoint.every_steps=100"},
			Say: func(line string) { told <- line }, Warn: func(line string) { warned <- line },
		})
		var user sync.WaitGroup
		defer user.Wait()
		if comm.Rank() == 0 {
			user.Go(func() {
				eventually(t, "a warning", func() bool {
					return len(warned) > 0 && strings.HasPrefix(<-warned, "checkpoint of step 3 failed")
				})
				j.RequestCheckpoint()
				eventually(t, "an answer", func() bool {
					return len(told) > 0 && strings.HasPrefix(<-told, "checkpoint of step 3 is written: ")
				})
				j.RequestStop()
			})
		}
		r, err := j.Run(context.Background())
		if err == nil && (r.Checkpoints != 1 || r.Checkpoint == "") {
			err = fmt.Errorf("%+v, want one checkpoint", r)
		}
		return err
	})
}

// TestStreamCountsBadRecords: bad records are counted over all spans.
func TestStreamCountsBadRecords(t *testing.T) {
	dir := t.TempDir()
	for i, rows := range []int{20, 0, 20} { // all records of the second are bad
		drop(t, dir, fmt.Sprint(i, ".csv"), rows, 1)
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i, ".csv")), os.O_APPEND|os.O_WRONLY, 0)
		fatal.If(t, err)
		fmt.Fprintln(f, "7,site1\n1")
		f.Close()
	}
	mark(t, dir)
	c := streamConfig(t, dir, ", files: 1", "")
	c.Data.MaxBad = 6
	var warned []string
	if res := runJob(t, 2, Options{Config: c, Warn: func(line string) { warned = append(warned, line) }}); res.Samples != 40 || res.Input.Bad != 6 || res.Spans != 3 {
		t.Errorf("%+v", res)
	}
	for i := range 3 {
		if !slices.ContainsFunc(warned, func(line string) bool {
			return strings.Contains(line, fmt.Sprint(i, ".csv:")) && strings.Contains(line, "cannot be used: 2;")
		}) {
			t.Errorf("the records of %d.csv are not reported: %q", i, warned)
		}
	}
	c.Data.MaxBad = 5
	if err := failJob(t, Options{Config: c}); !strings.Contains(err, "2.csv:") || !strings.Contains(err, "earlier spans left out 4, and data.max_bad, which counts all spans, is 5") {
		t.Errorf("%s", err)
	}
}

// TestStreamCountsUndated: values that should be dates and are none are counted over all spans, and reported once.
func TestStreamCountsUndated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, others := range []string{"", "1,noon\n0,noon\n", "", "1,soon\n"} {
		text := "click,at\n0,2026-11-30 10:00:00\n1,2026-11-30 11:00:00\n" + others
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".csv")), []byte(text), 0o644))
	}
	mark(t, dir)
	c := streamConfig(t, dir, ", files: 1", "")
	c.Features = []schema.Feature{{Field: "at", Encode: "hour", Format: "%Y-%m-%d %H:%M:%S"}}
	var warned []string
	res := runJob(t, 2, Options{Config: c, Warn: func(line string) {
		if strings.Contains(line, "noon") || strings.Contains(line, "soon") {
			warned = append(warned, line)
		}
	}})
	if len(res.TrainUndated) != 1 || res.TrainUndated[0].Unread != 3 || res.TrainUndated[0].Values != 11 {
		t.Errorf("%+v", res.TrainUndated)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "1.csv") {
		t.Errorf("%q", warned)
	}
}

// TestStreamReportsAbsentFields: a field without values is reported once, and not if it had
// values before.
func TestStreamReportsAbsentFields(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ format, often, seldom, there string }{
		{"jsonl", `{"click": %d, "site": 3, "user": 4}`, `{"click": 1, "site": 3, "other": null}`, "site, user"},
		{"libffm", "%d 10:3:1 2000:4:1", "1 10:3:1", "10, 2000, 10_values, 2000_values"},
	} {
		dir := t.TempDir()
		for i := range 3 {
			line := x.seldom + "\n"
			if i == 0 {
				line = fmt.Sprintf(x.often, 0) + "\n" + fmt.Sprintf(x.often, 1) + "\n"
			}
			fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(line), 0o644))
		}
		mark(t, dir)
		c := streamConfig(t, dir, ", files: 1", "")
		c.Data.Format, c.Data.Header = x.format, false
		names := []string{"click", "site", "user", "usr", "other"}
		if x.format == "libffm" {
			names = []string{"label", "10", "2000", "200", "77777"}
		}
		c.Label.Field = names[0]
		c.Features = nil
		for _, name := range names[1:] {
			c.Features = append(c.Features, schema.Feature{Field: name, Encode: "hash", Buckets: 8})
		}
		var warned []string
		res := runJob(t, 2, Options{Config: c, Warn: func(line string) {
			if strings.Contains(line, "fields") {
				warned = append(warned, line)
			}
		}})
		want := fmt.Sprintf("no record so far of the stream [%s] has a value of these fields: features[2].field %q (did you mean %q?), features[3].field %q; there are: %s. Correct what is misspelt; leave what comes later",
			dir, names[3], names[2], names[4], x.there)
		if res.Spans != 3 || !slices.Equal(warned, []string{want}) {
			t.Errorf("%s: %d spans, warnings %q\nwant %q", x.format, res.Spans, warned, want)
		}
	}
}

// TestBadRecordsOnResume: a stream that ended at a bad record resumes if more bad records are
// allowed, with the bits of a stream that allowed them from the beginning. The limit may be
// lowered later.
func TestBadRecordsOnResume(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		drop(t, dir, fmt.Sprint(i, ".csv"), 20, uint64(i))
	}
	f, err := os.OpenFile(filepath.Join(dir, "1.csv"), os.O_APPEND|os.O_WRONLY, 0)
	fatal.If(t, err)
	fmt.Fprintln(f, "7,site1")
	f.Close()
	mark(t, dir)
	c, out := streamConfig(t, dir, ", files: 1", ""), t.TempDir()
	if _, err := NewJob(single(), trace.New(0), Options{Config: c, Out: out}).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "1.csv:22") {
		t.Fatalf("a bad record: %v", err)
	}
	runs, _ := filepath.Glob(filepath.Join(out, "2*"))
	if len(runs) != 1 {
		t.Fatalf("run directories %q", runs)
	}
	var said []string
	tell := func(line string) { said = append(said, line) }
	res := runJob(t, 1, Options{Resume: runs[0], Set: []string{"data.max_bad=1"}, Say: tell})
	if all := strings.Join(said, "\n"); !strings.Contains(all, "changed since the checkpoint: data.max_bad: 0 → 1\n") || !strings.Contains(all, "training resumes after step 2") {
		t.Errorf("printed: %s", all)
	}
	c.Data.MaxBad = 1
	if whole := runJob(t, 1, Options{Config: c}); res.Samples != 60 || !reflect.DeepEqual(last(t, res), last(t, whole)) {
		t.Errorf("%d samples; the bits differ from the uninterrupted training", res.Samples)
	}
	os.Remove(filepath.Join(dir, "_SUCCESS"))
	drop(t, dir, "3.csv", 20, 9)
	mark(t, dir)
	if res := runJob(t, 1, Options{Resume: runs[0], Set: []string{"data.max_bad=0"}}); res.Samples != 80 {
		t.Errorf("%d samples", res.Samples)
	}
}

// TestSpanThatCannotBeUsed: the checkpoint of the previous span is complete when the job
// ends, however soon the fault of the next span is found.
func TestSpanThatCannotBeUsed(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	drop(t, dir, "0.csv", 20, 1)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "1.csv"), []byte("click,place\n1,site1\n"), 0o644))
	mark(t, dir)
	c := streamConfig(t, dir, ", files: 1", "")
	c.Train.Checkpoint.EverySteps = 100
	_, err := NewJob(single(), trace.New(0), Options{Config: c, Out: out}).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "1.csv") {
		t.Fatalf("a span without the field: %v", err)
	}
	found, _ := filepath.Glob(filepath.Join(out, "2*"))
	if at, _, err := checkpoint.Resolve(found[0]); err != nil || at.Step() != 2 {
		t.Errorf("no checkpoint of step 2: %v", err)
	}
}

// failJob runs a job that must fail on one rank, and returns the error.
func failJob(t testing.TB, opt Options) (why string) {
	t.Helper()
	opt.Out = t.TempDir()
	_, err := NewJob(single(), trace.New(0), opt).Run(context.Background())
	if err == nil {
		t.Fatal("the job did not fail")
	}
	return err.Error()
}

func TestStreamRefuses(t *testing.T) {
	everyday(t)
	dir, _ := days(t)
	late := runJob(t, 1, Options{Config: streamConfig(t, dir, "", "")})
	drop(t, dir, "day-2b.csv", 5, 1)
	for _, x := range []struct {
		opt  Options
		want string
	}{
		{Options{Resume: late.RunDir}, "7 files sort up to day-5.csv, and not all are among the 6"},
		{Options{Config: streamConfig(t, filepath.Join(dir, "day-1.csv"), "", "")}, "is not a folder"},
		{Options{Config: streamConfig(t, filepath.Join(dir, "none"), "", "")}, "file does not exist"},
		{Options{Config: streamConfig(t, "ftp://clicks/today", "", "")}, "ftp://"},
	} {
		if got := failJob(t, x.opt); !strings.Contains(got, x.want) {
			t.Errorf("%s\nwant %q", got, x.want)
		}
	}
	// Inside a span whose files have changed.
	middle := checkpoint.Dir(filepath.Join(late.RunDir, checkpoint.Folder), 3)
	os.Remove(filepath.Join(dir, "day-2b.csv"))
	drop(t, dir, "day-1.csv", 8, 77)
	if got := failJob(t, Options{Resume: middle}); !strings.Contains(got, "the files of the stream have changed") {
		t.Error(got)
	}
	c := streamConfig(t, dir, "", "")
	c.Features[0].Encode = "vocabulary"
	if err := Check(t.Context(), Options{Config: c}, 1); err == nil || !strings.Contains(err.Error(), "which the features site need") {
		t.Errorf("a vocabulary without statistics: %v", err)
	}
	tolerant := Options{Config: streamConfig(t, dir, "", ""), Tolerance: step.Tolerance{Backup: 1}}
	if got := failJob(t, tolerant); !strings.Contains(got, "data.follow") || !strings.Contains(got, "leave out -backup") {
		t.Error(got)
	}
	if err := Check(t.Context(), Options{Config: streamConfig(t, dir, "", ""), Replicas: 2}, 2); err == nil || !strings.Contains(err.Error(), "remove -replicas") {
		t.Error(err)
	}
}

// TestStreamFolderIsAway: a folder that cannot be listed for some time, such as that of a file server, does not end
// the training, although it is away for longer than idle. One line says so, and another when it is there again.
func TestStreamFolderIsAway(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "feed")
	fatal.If(t, os.Mkdir(dir, 0o755))
	drop(t, dir, "1.csv", 50, 1)
	var mu sync.Mutex
	var warned []string
	gone, back := false, false
	opt := Options{Config: streamConfig(t, dir, ", idle: 0.3", "")}
	opt.Say = func(line string) {
		if mu.Lock(); !gone && strings.HasPrefix(line, "span 1") {
			gone = true
			fatal.If(t, os.Rename(dir, dir+".away"))
		}
		mu.Unlock()
	}
	opt.Warn = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		switch warned = append(warned, line); {
		case !back && strings.Contains(line, "waits until it is there again"):
			back = true
			time.Sleep(400 * time.Millisecond)
			fatal.If(t, os.Rename(dir+".away", dir))
		case strings.Contains(line, "can be read again after"):
			drop(t, dir, "2.csv", 50, 2)
			mark(t, dir)
		}
	}
	if r := runJob(t, 2, opt); r.Samples != 100 {
		t.Errorf("%d samples", r.Samples)
	}
	if text := strings.Join(warned, "\n"); strings.Count(text, "waits until it is there again") != 1 || !strings.Contains(text, "can be read again after") {
		t.Errorf("warnings:\n%s", text)
	}
}

// TestBadOfAStream: unusable records, files without the label, without the column of a feature or with a
// repeated column, and late files are left out up to a rate, counted and written to a file, a folder or a topic. Beyond it, the training ends.
func TestBadOfAStream(t *testing.T) {
	t.Parallel()
	b, dead := newBrokers(t, 1), t.TempDir()
	topic := "kafka://" + b.ListenAddrs()[0] + "/clicks"
	badOfAStream(t, "", func(run string) string { return string(read(t, filepath.Join(run, input.FileBad))) })
	badOfAStream(t, ", to: \""+dead+"\"", func(string) (text string) {
		names, err := filepath.Glob(filepath.Join(dead, "*.jsonl"))
		fatal.If(t, err)
		for _, name := range names { // in the order of their spans
			text += string(read(t, name))
		}
		return text
	})
	badOfAStream(t, ", to: \""+topic+"\"", func(string) (text string) {
		for _, line := range b.committed(t) {
			text += line + "\n"
		}
		return text
	})
}

// badOfAStream compares the records that are kept according to to.
func badOfAStream(t *testing.T, to string, keptIn func(run string) string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) { fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	put("0.csv", "click,site\n"+strings.Repeat("1,site3\n", 20)+"what,site1\n"+strings.Repeat("0,site4\n", 20)+"huh,site2\n")
	put("1.csv", "site\n"+strings.Repeat("site3\n", 20))
	put("10.csv", "new,click\n"+strings.Repeat("9,1\n", 20))            // without the column of the feature
	put("11.csv", "site,new,click\n"+strings.Repeat("site3,9,1\n", 20)) // with another column
	put("2.csv", "click,site,new,new\n"+strings.Repeat("1,site3,9,9\n", 20))
	first := runJob(t, 2, Options{Config: streamConfig(t, dir, ", files: 10, idle: 0.3, bad: {per: 100, most: 5"+to+"}", "")})
	if first.Samples != 60 || first.Input.Bad != 2 || first.Input.BadFiles != 3 {
		t.Errorf("%d samples, %+v", first.Samples, first.Input)
	}
	put("00.csv", "click,site\n1,site1\n")
	put("3.csv", "click,site\n"+strings.Repeat("1,site3\n", 20))
	again := runJob(t, 2, Options{Resume: first.RunDir})
	if again.Samples != 80 || again.Input.Bad != 2 || again.Input.BadFiles != 4 {
		t.Errorf("%d samples, %+v", again.Samples, again.Input)
	}
	kept := strings.Split(strings.TrimSpace(keptIn(first.RunDir)), "\n")
	if len(kept) != 6 {
		t.Fatalf("%d letters: %q", len(kept), kept)
	}
	for _, parts := range [][]string{{"1.csv", "click"}, {"10.csv", "site"}, {"2.csv", "header differs"}, {`"offset":171`, `\"what\"`, `"record":"what,site1"`}, {`"record":"huh,site2"`}, {"00.csv", "came after 2.csv"}} {
		all := func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		}
		if !slices.ContainsFunc(kept, all) {
			t.Errorf("%q: no line of %q", parts, kept)
		}
	}
	put("4.csv", "click,site\n"+strings.Repeat("1,site3\n", 20)+strings.Repeat("what,site1\n", 10))
	_, err := NewJob(single(), trace.New(0), Options{Resume: first.RunDir}).Run(context.Background())
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "10 of 30 records of the span cannot be used, and data.follow.bad permits 5 of 100") {
		t.Errorf("beyond the rate: %v", err)
	}
}
