package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// manyKeys writes a log in which each row has eight of the given number of keys.
func manyKeys(t *testing.T, rows int, keys uint64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("click,words\n")
	rng := rand.New(rand.NewPCG(11, 12))
	for range rows {
		words := make([]string, 8)
		for i := range words {
			words[i] = fmt.Sprint(rng.Uint64N(keys))
		}
		fmt.Fprintf(&b, "%d,%s\n", rng.IntN(2), strings.Join(words, "|"))
	}
	path := filepath.Join(t.TempDir(), "words.csv")
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// wordsConfig returns a configuration for manyKeys with settings of the table of words.
func wordsConfig(t *testing.T, path, table, feature string) *config.Config {
	t.Helper()
	c, err := config.Parse("words.yaml", fmt.Appendf(nil, `
data: {train: [%q], header: true}
label: {field: click}
features: [{field: words, encode: id, separator: "|"%s}]
tables: [{name: words%s}]
model: {embedding_dim: 8, hidden: [8]}
train: {global_batch: 100, epochs: 2, checkpoint: {every_steps: 15, keep: 100}}
`, path, feature, table))
	fatal.If(t, err)
	return c
}

// TestTierAndResume: a training with a tier has the bits of one in memory, also if it is resumed
// in the middle.
func TestTierAndResume(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const size = 2
	path := manyKeys(t, 3000, 1<<20)
	memory := runJob(t, size, Options{Config: wordsConfig(t, path, "", "")})
	tier := fmt.Sprintf(", tier: {dir: %q, memory: 1}", t.TempDir())
	whole := runJob(t, size, Options{Config: wordsConfig(t, path, tier, "")})
	again := runJob(t, size, Options{Resume: checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 30)})
	for name, r := range map[string]report.Result{"whole": whole, "resumed": again} {
		if x := r.Tables[0]; x.ToDisk == 0 || x.FromDisk == 0 || x.Ahead == 0 || x.Ahead > x.FromDisk || x.Bytes > memory.Tables[0].Bytes*7/8 {
			t.Errorf("%s: no row moved to disk: %+v, in memory %d bytes", name, x, memory.Tables[0].Bytes)
		}
		if !maps.Equal(contents(t, r), contents(t, memory)) {
			t.Errorf("%s: the model differs from a training in memory", name)
		}
	}
}

// TestTierInSlots: in slots, cold rows of the next slot and of the next step are read ahead,
// whether or not batches are prepared concurrently.
func TestTierInSlots(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path := manyKeys(t, 3000, 1<<20)
	var want map[string]string
	for _, size := range []int{1, 2, 4} {
		tier := fmt.Sprintf(", tier: {dir: %q, memory: 1}", t.TempDir())
		if want == nil {
			tier = ""
		}
		c := wordsConfig(t, path, tier, "")
		fatal.If(t, config.Set(c, "train.slots", "4"))
		r := runJob(t, size, Options{Config: c})
		if want == nil {
			want = contents(t, r)
			continue
		}
		if x := r.Tables[0]; size == 2 && (x.FromDisk == 0 || x.Ahead < x.FromDisk/2 || x.Ahead > x.FromDisk) {
			t.Errorf("%d ranks: of %d rows read from disk %d were read ahead", size, x.FromDisk, x.Ahead)
		}
		if !maps.Equal(contents(t, r), want) {
			t.Errorf("%d ranks: the model differs from a training in memory", size)
		}
	}
}

// TestTierTooSmall: a limit that leaves no memory for rows in addition to the index is
// reported once at the start, with a sufficient limit.
func TestTierTooSmall(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path := manyKeys(t, 6000, 1<<20)
	least := 0
	for _, enough := range []bool{false, true} {
		memory := 1
		if enough {
			memory = least
		}
		var warned []string
		r := runJob(t, 1, Options{Config: wordsConfig(t, path, fmt.Sprintf(", tier: {dir: %q, memory: %d}", t.TempDir(), memory), ""), Warn: func(line string) { warned = append(warned, line) }})
		if r.Tables[0].ToDisk == 0 {
			t.Errorf("no row moved to disk")
		}
		if enough {
			if len(warned) != 0 {
				t.Errorf("with %d MiB: %q", memory, warned)
			}
			break
		}
		if len(warned) != 1 {
			t.Fatalf("warnings: %q", warned)
		}
		_, after, _ := strings.Cut(warned[0], "; give ")
		if n, err := fmt.Sscanf(after, "%d or more", &least); n != 1 || !strings.HasPrefix(warned[0], `table "words": tier.memory: 1 MiB on each rank leave no room`) {
			t.Fatalf("%q: %v", warned[0], err)
		}
	}
}

// TestAdmissionInAJob: keys get a row in their third step, on any number of ranks.
func TestAdmissionInAJob(t *testing.T) {
	const after = 3
	path := manyKeys(t, 2000, 3000)
	steps := map[string]int{} // the number of steps with each word
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	c := wordsConfig(t, path, fmt.Sprintf(", admit: {after: %d}", after), "")
	if err := config.Set(c, "train.shuffle", "false"); err != nil { // so that steps consist of consecutive lines of the file
		t.Fatal(err)
	}
	for range 2 { // epochs
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")[1:]
		for from := 0; from < len(lines); from += 100 {
			seen := map[string]bool{}
			for _, line := range lines[from:min(from+100, len(lines))] {
				_, words, _ := strings.Cut(line, ",")
				for word := range strings.SplitSeq(words, "|") {
					seen[word] = true
				}
			}
			for word := range seen {
				steps[word]++
			}
		}
	}
	var admitted, refused int64
	for _, n := range steps {
		if n >= after {
			admitted++
		}
		refused += int64(min(n, after-1))
	}
	for size := 1; size <= 3; size++ {
		x := runJob(t, size, Options{Config: c}).Tables[0]
		if x.Rows != admitted || x.Inserted != admitted || x.Refused != refused {
			t.Errorf("%d ranks: %d rows, %d inserted, %d not admitted; %d keys are in %d steps or more, with %d gradients before", size, x.Rows, x.Inserted, x.Refused, admitted, after, refused)
		}
	}
}

// TestRowsWithoutMarksAgeFromTheCheckpoint resumes from shards of format version 1, in which
// rows have no step of their last gradient. Their age counts from the checkpoint.
func TestRowsWithoutMarksAgeFromTheCheckpoint(t *testing.T) {
	path := manyKeys(t, 3000, 2000)
	run := runJob(t, 2, Options{Config: wordsConfig(t, path, "", ""), Set: []string{"train.checkpoint.full_every=1"}})
	from := open(t, checkpoint.Dir(filepath.Join(run.RunDir, checkpoint.Folder), 45))
	// The same checkpoint, with a table that evicts rows after forty steps.
	evicting := wordsConfig(t, path, ", evict: {age: 40}", "")
	evicting.Fill()
	dir := rewritten(t, from, func(name string, b []byte) []byte {
		if name == save.SectionConfig {
			return evicting.YAML()
		}
		return b
	})
	again := runJob(t, 2, Options{Resume: dir}) // fifteen more steps
	if x := again.Tables[0]; again.Steps != 60 || x.Evicted != 0 || x.Rows < 1900 {
		t.Errorf("after %d steps %d of %d rows were evicted, although none is forty steps old", again.Steps, x.Evicted, x.Rows)
	}
}

// failed runs a job that must fail on every rank, and returns rank 0's error.
func failed(t *testing.T, size int, opt Options) (err error) {
	t.Helper()
	opt.Out = t.TempDir()
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		_, fault := NewJob(comm, trace.New(100), opt).Run(context.Background())
		if fault == nil {
			t.Errorf("rank %d: no error", comm.Rank())
		}
		if comm.Rank() == 0 {
			err = fault
		}
		if fault != nil {
			comm.Abort(fault)
		}
		return nil
	})
	return err
}

// TestGradientsThatAreNotFinite: the sum of three factors of 3e38 is not finite, and the
// error names the table and the key.
func TestGradientsThatAreNotFinite(t *testing.T) {
	var b strings.Builder
	b.WriteString("click,words,factors\n")
	for i := range 400 {
		key, factor := i+1000, "1"
		if i%7 == 0 {
			key, factor = 4711, "3e38"
		}
		fmt.Fprintf(&b, "%d,%d,%s\n", i/7%2, key, factor)
	}
	path := filepath.Join(t.TempDir(), "factors.csv")
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	for _, strategy := range []string{"rows", "pooled"} {
		c, err := config.Parse("factors.yaml", fmt.Appendf(nil, `
data: {train: [%q], header: true}
label: {field: click}
features: [{field: words, encode: id, weights: factors}]
tables: [{name: words, strategy: %s}]
model: {deep: false}
train: {global_batch: 400}
`, path, strategy))
		fatal.If(t, err)
		if err := failed(t, 2, Options{Config: c}); err == nil || !strings.Contains(err.Error(), "words") || !strings.Contains(err.Error(), "key 4711") {
			t.Errorf("%s: %v", strategy, err)
		}
	}
}

// TestTiersThatFail: a missing folder, and a file that is damaged while it contains rows, are
// reported.
func TestTiersThatFail(t *testing.T) {
	t.Parallel()
	path := manyKeys(t, 3000, 1<<20)
	missing := filepath.Join(t.TempDir(), "none")
	if err := failed(t, 2, Options{Config: wordsConfig(t, path, fmt.Sprintf(", tier: {dir: %q, memory: 1}", missing), "")}); err == nil ||
		!strings.Contains(err.Error(), `table "words"`) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing folder: %v", err)
	} else if !lasts(err) {
		t.Errorf("the error is not permanent: %v", err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to find the file, which has no name")
	}
	dir, cut := t.TempDir(), 0
	damage := func(string) { // after the first epoch
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Error(err)
		}
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir) {
				if err := os.Truncate(l, 0); err != nil {
					t.Error(err)
				}
				cut++
			}
		}
	}
	c := wordsConfig(t, path, fmt.Sprintf(", tier: {dir: %q, memory: 1}", dir), "")
	if err := failed(t, 1, Options{Config: c, Say: damage}); err == nil || cut == 0 ||
		!strings.Contains(err.Error(), `table "words"`) || !strings.Contains(err.Error(), "the file is damaged") || lasts(err) {
		t.Errorf("%d files damaged: %v", cut, err)
	}
}

// lasts reports whether an error is permanent.
func lasts(err error) bool {
	var lasting *rank.PermanentError
	return errors.As(err, &lasting)
}

// TestRowsOfAnotherWidthAreRefused: a checkpoint whose table has rows of another width is
// rejected.
func TestRowsOfAnotherWidthAreRefused(t *testing.T) {
	run := runJob(t, 2, Options{Config: wordsConfig(t, manyKeys(t, 300, 500), "", "")})
	err := failed(t, 1, Options{Resume: run.RunDir, Set: []string{"model.embedding_dim=4"}})
	if err == nil || !strings.Contains(err.Error(), "model.embedding_dim: 8 → 4") || !lasts(err) {
		t.Errorf("%v", err)
	}
}
