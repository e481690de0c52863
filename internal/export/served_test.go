package export_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// served is a trainee whose folder a server reads.
type served struct {
	*trainee
	registry *versions.Registry[*export.Model]
	want     map[int64][]map[uint64][]float32 // rows of each version
	pins     map[string]int64
	held     bool
}

func newServed(t *testing.T) *served {
	s := &served{trainee: newTrainee(t, 4), want: map[int64][]map[uint64][]float32{}, pins: map[string]int64{}}
	s.start()
	t.Cleanup(func() { s.registry.Close() })
	return s
}

func (s *served) start() {
	s.registry = versions.New(versions.Options[*export.Model]{Open: func(_ string, _ int64, dir string, before *export.Model) (*export.Model, error) {
		return export.OpenAfter(dir, before, nil)
	}})
}

// current returns a copy of the rows of the training.
func (s *served) current() (all []map[uint64][]float32) {
	for _, rows := range s.rows {
		all = append(all, maps.Clone(rows))
	}
	return all
}

// poll makes the server read the folder. It returns the version that a request gets, 0 for none,
// after a comparison of its rows.
func (s *served) poll(label string) int64 {
	s.t.Helper()
	_ = s.registry.Set(context.Background(), []versions.Config{{Name: "m", Base: s.dir}}) // no version may be left
	v, err := s.registry.Acquire(versions.Want{Model: "m", Label: label})
	if err != nil {
		return 0
	}
	defer v.Release()
	now := s.rows
	s.rows = s.want[v.Number]
	s.check(v.Model)
	s.rows = now
	return v.Number
}

// publishes trains and publishes a version, which must be served at once.
func (s *served) publishes() {
	s.t.Helper()
	s.train()
	err := s.publish()
	if held := new(export.HeldError); s.held && errors.As(err, &held) {
		return
	}
	fatal.If(s.t, err)
	s.want[s.last] = s.current()
	if n := s.poll(""); n != s.last {
		s.t.Fatalf("version %d is served after version %d was published", n, s.last)
	}
	s.pub.Wait()
	for label, n := range s.pins {
		if got := s.poll(label); got != n {
			s.t.Fatalf("label %s gets version %d, want %d", label, got, n)
		}
	}
}

// replaceDamaged puts a damaged copy in the place of a file.
func replaceDamaged(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil // not a file of this version
	}
	b[len(b)/2] ^= 1
	return errors.Join(os.WriteFile(path+".new", b, 0o644), os.Rename(path+".new", path))
}

func (s *served) event(rng *rand.Rand) string {
	all, err := export.List(s.dir, true)
	fatal.If(s.t, err)
	n, whole := int64(-1), false
	if len(all.Versions) > 0 {
		v := all.Versions[rng.IntN(len(all.Versions))]
		n, whole = v.Version, v.State == "ok"
	}
	pinned := slices.Contains(slices.Collect(maps.Values(s.pins)), n)
	switch e := rng.IntN(12); {
	case e < 4 || n < 0:
		s.publishes()
		return "publish"
	case e == 4 && !pinned:
		fatal.If(s.t, os.RemoveAll(s.version(n)))
		return fmt.Sprint("remove ", n)
	case e == 5 && !pinned:
		for _, name := range []string{"delta.bin", "table-0000.bin"} {
			fatal.If(s.t, replaceDamaged(filepath.Join(s.version(n), name)))
		}
		return fmt.Sprint("damage ", n)
	case e == 6 && whole:
		for range 2 {
			_, err := export.Pin(s.t.Context(), s.dir, "stable", n)
			fatal.If(s.t, err)
		}
		s.pins["stable"] = n
		if got := s.poll("stable"); got != n {
			s.t.Fatalf("stable gets version %d, want %d", got, n)
		}
		// What it builds upon may be removed once it is complete.
		s.train()
		if err := s.publish(); err == nil {
			s.want[s.last] = s.current()
		}
		s.pub.Wait()
		return fmt.Sprint("pin ", n)
	case e == 7:
		_, err := export.Unpin(s.t.Context(), s.dir, "stable")
		fatal.If(s.t, err)
		delete(s.pins, "stable")
		return "unpin"
	case e == 8 && whole:
		s.rollsBack(n)
		return fmt.Sprint("rollback ", n)
	case e == 9:
		_, err := export.Hold(s.t.Context(), s.dir, "test")
		fatal.If(s.t, err)
		s.held = true
		return "hold"
	case e == 10:
		_, err := export.Release(s.t.Context(), s.dir)
		fatal.If(s.t, err)
		s.held = false
		return "release"
	default:
		s.registry.Close()
		s.start()
		return "restart the server"
	}
}

func (s *served) rollsBack(n int64) {
	s.t.Helper()
	version, created, err := export.Rollback(s.t.Context(), s.dir, n)
	fatal.If(s.t, err)
	if created {
		s.want[version] = s.want[n]
	}
	s.held = true
	if got := s.poll(""); got != version {
		s.t.Fatalf("version %d is served after a rollback to %d as version %d", got, n, version)
	}
	if again, created, err := export.Rollback(s.t.Context(), s.dir, n); again != version || created || err != nil {
		s.t.Fatalf("a repeated rollback: version %d, %v, %v", again, created, err)
	}
}

// TestTheServedModelAfterEachEvent: after versions are removed, damaged, pinned or rolled back, the
// server has the right rows of each version, and the next version that is published is served.
func TestTheServedModelAfterEachEvent(t *testing.T) {
	for seed := range uint64(patient.Size(4, 40)) {
		s, rng := newServed(t), rand.New(rand.NewPCG(seed, 3))
		var log []string
		for range 30 {
			if !s.held {
				s.publishes()
			}
			log = append(log, s.event(rng))
			s.poll("")
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, strings.Join(log, ", "))
			}
		}
	}
}

// TestAPinnedVersionStays: a version with a label becomes complete and stays while others are
// removed. It serves its label, and the latest serves other requests. Without the label it goes.
func TestAPinnedVersionStays(t *testing.T) {
	s := newServed(t)
	for range 3 {
		s.publishes()
	}
	later, err := export.Pin(t.Context(), s.dir, "stable", 3)
	if !later || err != nil {
		t.Fatalf("%v, %v", later, err)
	}
	s.pins["stable"] = 3
	for range 20 {
		s.publishes()
	}
	if m, err := export.Open(s.version(3)); err != nil || m.Base() != 3 {
		t.Errorf("version 3: %v", err)
	}
	if _, err := os.Stat(s.version(2)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("version 2, which version 3 had changed: %v", err)
	}
	l, err := export.List(s.dir, true)
	fatal.If(t, err)
	if v := l.Versions[0]; v.Version != 3 || v.Kind != "complete" || !slices.Equal(v.Pins, []string{"stable"}) || v.State != "ok" || v.Step != 3 || len(l.Bad()) > 0 {
		t.Errorf("%+v", l)
	}
	was, err := export.Unpin(t.Context(), s.dir, "stable")
	if !was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	delete(s.pins, "stable")
	for range 9 {
		s.publishes()
	}
	if _, err := os.Stat(s.version(3)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("version 3 without its label: %v", err)
	}
}

// TestPinWithoutATraining: the command itself makes a version complete if no training writes. A
// version that is not there, a link and an invalid label are rejected.
func TestPinWithoutATraining(t *testing.T) {
	x := newTrainee(t, 100)
	for range 3 {
		x.train()
		fatal.If(t, x.publish())
	}
	fatal.If(t, x.pub.Close())
	later, err := export.Pin(t.Context(), x.dir, "stable", 3)
	if later || err != nil {
		t.Fatalf("%v, %v", later, err)
	}
	fatal.If(t, errors.Join(os.RemoveAll(x.version(1)), os.RemoveAll(x.version(2))))
	x.check(x.openAfter(3, nil))
	fatal.If(t, os.Symlink("3", x.version(4)))
	for want, pin := range map[string]struct {
		label string
		n     int64
	}{
		"version 2 is not there: the folder has 2 versions from 3 to 4": {"stable", 2},
		"it is a symbolic link": {"stable", 4},
		"the label":             {"../x", 3},
	} {
		if _, err := export.Pin(t.Context(), x.dir, pin.label, pin.n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	x.open()
}
