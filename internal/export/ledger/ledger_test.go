package ledger

import (
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

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// world is a folder in memory, with a training and a user. The rows of a model are the steps that
// it has seen. Each change of the folder is one call of do, which a crash prevents.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	rows map[int64][]int64 // by version: all rows, or those that it changes
	Folder
	hold bool

	want    map[int64][]int64 // the plain model: all rows of each version
	steps   []int64           // of the training
	last    Version           // its last version
	known   int64             // highest version that it knows
	chained bool              // the next version may contain changes
	pending []int64           // steps that no version contains

	left int // changes until the crash
	log  []string
}

var errCrash = errors.New("crash")

// do makes one change of the folder.
func (w *world) do(f func()) {
	if w.left == 0 {
		panic(errCrash)
	}
	w.left--
	f()
}

func (w *world) highest() int64 {
	if all := w.Numbers(); len(all) > 0 {
		return all[len(all)-1]
	}
	return -1
}

// opened returns the rows of a version as a server reads them.
func (w *world) opened(n int64) (all []int64, err error) {
	chain, err := w.Chain(n)
	for _, c := range chain {
		all = append(all, w.rows[c]...)
	}
	return all, err
}

func (w *world) add(v Version, rows, want []int64) {
	w.Versions[v.Number], w.rows[v.Number], w.want[v.Number] = v, slices.Clone(rows), slices.Clone(want)
}

// publish does a step and publishes it, as a Publisher does.
func (w *world) publish() {
	step := int64(len(w.steps) + 1)
	w.steps, w.pending = append(w.steps, step), append(w.pending, step)
	if w.hold {
		return
	}
	n, err := Next(step, max(w.known, w.highest()))
	fatal.If(w.t, err)
	v, rows := Version{Number: n, Taken: 1 + w.rng.Int64()}, w.steps
	_, err = w.Chain(w.last.Number)
	if err == nil && w.chained && w.Versions[w.last.Number].Taken == w.last.Taken {
		v.Delta, rows = &Delta{w.last.Number, w.last.Taken}, w.pending
	}
	w.do(func() { w.add(v, rows, w.steps) })
	w.last, w.known, w.chained, w.pending = v, n, true, nil
	w.opens(n, "the version just published")
}

// restart resumes the training after a crash.
func (w *world) restart() {
	w.chained, w.pending, w.known = false, nil, w.highest()
}

// complete makes a version complete.
func (w *world) complete(n int64) {
	all, err := w.opened(n)
	if err != nil {
		return
	}
	w.do(func() {
		v := w.Versions[n]
		v.Delta, w.rows[n] = nil, all
		w.Versions[n] = v
	})
}

func (w *world) prune(k Keep) {
	remove := w.Remove(k, w.last.Number, time.Unix(0, math.MaxInt64))
	var complete []int64
	for _, n := range w.Numbers() {
		if v := w.Versions[n]; v.Delta == nil && v.Fault == "" {
			complete = append(complete, n)
		}
	}
	newest := complete[max(0, len(complete)-k.Complete):]
	openable := map[int64]bool{}
	for _, n := range w.Pins {
		_, err := w.Chain(n)
		openable[n] = err == nil
	}
	_, err := w.Chain(w.last.Number)
	openable[w.last.Number] = err == nil
	for _, n := range remove {
		if slices.Contains(newest, n) {
			w.t.Fatalf("version %d, one of the last %d complete ones, is removed\n%s", n, k.Complete, w)
		}
		w.do(func() { delete(w.Versions, n) })
	}
	for n, was := range openable {
		if _, err := w.Chain(n); was && err != nil {
			w.t.Fatalf("version %d no longer opens: %v\n%s", n, err, w)
		}
	}
}

func (w *world) rollback(n int64) {
	all, err := w.opened(n)
	if err != nil {
		return
	}
	w.do(func() { w.hold = true })
	to, err := Next(0, w.highest())
	fatal.If(w.t, err)
	w.do(func() { w.add(Version{Number: to, Taken: 1 + w.rng.Int64()}, all, w.want[n]) })
	if got, err := w.opened(w.highest()); err != nil || !slices.Equal(got, w.want[n]) {
		w.t.Fatalf("after a rollback to %d the highest version has %v, %v\n%s", n, got, err, w)
	}
}

func (w *world) opens(n int64, what string) {
	if got, err := w.opened(n); err != nil || !slices.Equal(got, w.want[n]) {
		w.t.Fatalf("version %d, %s: %v, %v, want %v\n%s", n, what, got, err, w.want[n], w)
	}
}

func (w *world) String() string { return strings.Join(w.log, "\n") }

// event runs one random event. It returns true if the processes crashed.
func (w *world) event() (crashed bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != errCrash {
				panic(r)
			}
			crashed = true
		}
	}()
	all := w.Numbers()
	n := int64(-1)
	if len(all) > 0 {
		n = all[w.rng.IntN(len(all))]
	}
	e := w.rng.IntN(13)
	w.log = append(w.log, fmt.Sprintf("%s %d, crash after %d", [...]string{"publish", "publish", "publish", "publish", "publish", "remove", "damage", "pin", "unpin", "complete", "prune", "rollback", "release"}[e], n, w.left))
	_, whole := w.Chain(n)
	switch {
	case e < 5:
		w.publish()
	case n < 0:
	case e == 5:
		delete(w.Versions, n)
	case e == 6:
		v := w.Versions[n]
		v.Fault = "damaged"
		w.Versions[n] = v
	case e == 7 && whole == nil:
		w.do(func() { w.Pins[[]string{"stable", "canary"}[w.rng.IntN(2)]] = n })
		for _, n := range w.Incomplete() {
			w.complete(n)
		}
		if all := w.Incomplete(); len(all) > 0 {
			w.t.Fatalf("the pinned versions %v are not complete\n%s", all, w)
		}
	case e == 8:
		w.do(func() { delete(w.Pins, "canary") })
	case e == 9:
		w.complete(w.last.Number)
	case e == 10:
		w.prune(Keep{Versions: w.rng.IntN(4), Complete: 1 + w.rng.IntN(3)})
	case e == 11:
		w.rollback(n)
	case e == 12:
		w.do(func() { w.hold = false })
	}
	return false
}

// TestTheLedgerAgreesWithAPlainModel: after any events, and crashes between any two changes of the
// folder, each version that opens has the rows that it was published with. The version published
// last opens at once whatever was removed or damaged before. Numbers rise.
func TestTheLedgerAgreesWithAPlainModel(t *testing.T) {
	deltas, repaired := 0, 0
	for seed := range uint64(3000) {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), rows: map[int64][]int64{}, want: map[int64][]int64{}, known: -1}
		w.Folder = Folder{map[int64]Version{}, map[string]int64{}}
		for range 40 {
			held, before, chained := w.hold, w.last, w.chained
			w.left = 3
			if w.rng.IntN(5) == 0 {
				w.left = w.rng.IntN(3)
			}
			if w.event() {
				w.restart()
			}
			for _, n := range w.Numbers() {
				if got, err := w.opened(n); err == nil && !slices.Equal(got, w.want[n]) {
					t.Fatalf("seed %d: version %d has %v, want %v\n%s", seed, n, got, w.want[n], w)
				}
			}
			if v := w.last; v.Taken != before.Taken {
				if held {
					t.Fatalf("seed %d: version %d was published during a hold\n%s", seed, v.Number, w)
				}
				if v.Number <= before.Number && chained {
					t.Fatalf("seed %d: version %d after %d\n%s", seed, v.Number, before.Number, w)
				}
				if v.Delta != nil {
					deltas++
				} else if chained {
					repaired++
				}
			}
		}
	}
	if deltas < 1000 || repaired < 1000 {
		t.Errorf("only %d versions have changes, %d replaced damaged ones", deltas, repaired)
	}
}

// TestRemove: what is kept is the newest versions, the newest complete ones, one of each hour, the
// pinned ones and all on which these depend; versions of other programs are never removed.
func TestRemove(t *testing.T) {
	hour := int64(time.Hour)
	f := Folder{Versions: map[int64]Version{}, Pins: map[string]int64{"stable": 3, "gone": 77}}
	for n := int64(1); n <= 20; n++ { // complete: 1, 5, 9, 13, 17; one each half hour
		v := Version{Number: n, Taken: hour*1000 + (n-1)*hour/2}
		if n%4 != 1 {
			v.Delta = &Delta{n - 1, v.Taken - hour/2}
		}
		f.Versions[n] = v
	}
	f.Versions[2000] = Version{Number: 2000} // of another program
	f.Versions[0] = Version{Number: 0}
	now := time.Unix(0, hour*1000+20*hour/2)
	for _, x := range []struct {
		keep Keep
		want string
	}{
		{Keep{}, "[4 5 6 7 8 9 10 11 12 13 14 15 16]"},
		{Keep{Versions: 6}, "[4 5 6 7 8 9 10 11 12]"},
		{Keep{Complete: 3}, "[4 5 6 7 8 10 11 12 14 15 16]"},
		{Keep{Complete: 1, Hours: 7}, "[4 5 6 7 8 10 11 12 14 15 16]"},
	} {
		if got := fmt.Sprint(f.Remove(x.keep, 20, now)); got != x.want {
			t.Errorf("%+v removes %s, want %s", x.keep, got, x.want)
		}
	}
}

// TestTheLastModelOfTheTrainingBeforeIsKept, so that one can roll back to it, but not the models of earlier
// trainings.
func TestTheLastModelOfTheTrainingBeforeIsKept(t *testing.T) {
	f := Folder{Versions: map[int64]Version{}}
	for n, of := range []string{"a", "a", "b", "b", "b", "c", "c", "c"} {
		f.Versions[int64(n)] = Version{Number: int64(n), Taken: int64(n) + 1, Lineage: of}
	}
	f.Versions[4] = Version{Number: 4, Taken: 5, Lineage: "b", Delta: &Delta{3, 4}}
	if got := fmt.Sprint(f.Remove(Keep{}, 7, time.Unix(1, 0))); got != "[0 1 2 5 6]" {
		t.Errorf("%s are removed", got)
	}
}

func TestNext(t *testing.T) {
	for _, x := range [][3]int64{{5, -1, 5}, {5, 4, 5}, {5, 5, 6}, {5, 1700000000, 1700000001}, {1, math.MaxInt64 - 1, math.MaxInt64}} {
		if n, err := Next(x[0], x[1]); err != nil || n != x[2] {
			t.Errorf("step %d after %d: %d, %v, want %d", x[0], x[1], n, err, x[2])
		}
	}
	if _, err := Next(1, math.MaxInt64); err == nil || !strings.Contains(err.Error(), "no number is higher") {
		t.Error(err)
	}
}

// TestSmallFiles: pins and holds are read back. Links, folders, foreign names and numbers are named
// and not used.
func TestSmallFiles(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if pins, faults, err := ReadPins(dir); len(pins) > 0 || len(faults) > 0 || err != nil {
		t.Errorf("a folder without pins: %v, %v, %v", pins, faults, err)
	}
	for range 2 {
		fatal.If(t, WritePin(dir, "stable", 7))
	}
	fatal.If(t, WritePin(dir, "stable", 8))
	fatal.If(t, WritePin(dir, "canary", 9))
	at := func(name string) string { return filepath.Join(dir, pinsName, name) }
	fatal.If(t, errors.Join(
		os.WriteFile(secret, []byte("5\n"), 0o600), os.Symlink(secret, at("link")), os.Mkdir(at("folder"), 0o755),
		os.WriteFile(at("word"), []byte("five"), 0o600), os.WriteFile(at("negative"), []byte("-5"), 0o600),
		os.WriteFile(at("large"), []byte(strings.Repeat("1", 1000)), 0o600), os.WriteFile(at("a b"), []byte("5"), 0o600),
		os.WriteFile(at(".tmp-x"), []byte("5"), 0o600), os.WriteFile(at("huge"), []byte("99999999999999999999"), 0o600)))
	pins, faults, err := ReadPins(dir)
	if err != nil || !maps.Equal(pins, map[string]int64{"stable": 8, "canary": 9}) || len(faults) != 7 {
		t.Errorf("%v, %q, %v", pins, faults, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := RemovePin(dir, "canary"); was != want || err != nil {
			t.Errorf("remove: %v, %v", was, err)
		}
	}
	if ReadHold(dir) != nil {
		t.Error("a hold that nobody wrote")
	}
	seven := int64(7)
	fatal.If(t, WriteHold(dir, Hold{Reason: "a reason", Rollback: &seven}))
	if h := ReadHold(dir); h == nil || h.Reason != "a reason" || *h.Rollback != 7 {
		t.Errorf("hold %+v", h)
	}
	for _, want := range []bool{true, false} {
		if was, err := RemoveHold(dir); was != want || err != nil {
			t.Errorf("release: %v, %v", was, err)
		}
	}
	fatal.If(t, os.Symlink(secret, filepath.Join(dir, holdName)))
	if h := ReadHold(dir); h == nil || !strings.Contains(h.Reason, "not a regular file") {
		t.Errorf("a link as hold: %+v", h)
	}
	fatal.If(t, errors.Join(os.RemoveAll(filepath.Join(dir, pinsName)), os.Symlink(filepath.Dir(secret), filepath.Join(dir, pinsName))))
	if pins, faults, err := ReadPins(dir); len(pins) > 0 || len(faults) != 1 || err != nil {
		t.Errorf("pins that are a link: %v, %q, %v", pins, faults, err)
	}
}

func FuzzPin(f *testing.F) {
	for _, s := range []string{"7\n", "", "-1", "+3", "007", "9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dir := t.TempDir()
		fatal.If(t, errors.Join(os.Mkdir(filepath.Join(dir, pinsName), 0o755), os.WriteFile(filepath.Join(dir, pinsName, "l"), []byte(s), 0o600)))
		pins, faults, err := ReadPins(dir)
		n, used := pins["l"]
		if err != nil || used == (len(faults) > 0) || n < 0 || used && strings.TrimSpace(s) != fmt.Sprint(n) {
			t.Errorf("%q: %v, %q, %v", s, pins, faults, err)
		}
	})
}
