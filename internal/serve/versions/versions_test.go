package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChoose(t *testing.T) {
	found := []int64{3, 7, 8}
	for _, x := range []struct {
		p    Policy
		want []int64
	}{
		{Policy{}, []int64{8}}, {Policy{Latest: 2}, []int64{7, 8}}, {Policy{Latest: 9}, found}, {Policy{All: true}, found},
		{Policy{Specific: []int64{7, 3, 5}}, []int64{3, 7}}, {Policy{Specific: []int64{1}}, nil},
	} {
		if got := x.p.choose(found); !slices.Equal(got, x.want) {
			t.Errorf("%+v chooses %v, want %v", x.p, got, x.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, all := range map[string][]Config{
		"a name is not empty":    {{Base: "x"}},
		"has neither / nor :":    {{Name: "a/b", Base: "x"}},
		"model a is given twice": {{Name: "a", Base: "x"}, {Name: "a", Base: "y"}},
		"has no base path":       {{Name: "a"}},
		"must be above 0":        {{Name: "a", Base: "x", Policy: Policy{Latest: -1}}},
	} {
		if err := Check(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// fake is a model whose content is a file of its folder.
type fake struct {
	content string
	before  string // content of the version passed as before
	closed  atomic.Bool
	server  *server
}

func (f *fake) Close() error {
	if f.closed.Swap(true) {
		f.server.t.Errorf("version %s is closed twice", f.content)
	}
	return nil
}

// server is a registry over a folder of the test.
type server struct {
	*Registry[*fake]
	t      *testing.T
	base   string
	mu     sync.Mutex
	events []string
	slow   time.Duration // opening time
}

func newServer(t *testing.T) *server {
	s := &server{t: t, base: t.TempDir()}
	s.Registry = New(Options[*fake]{Open: s.load, Poll: time.Second, Report: s.note})
	return s
}

func (s *server) load(_ string, n int64, dir string, before *fake) (*fake, error) {
	time.Sleep(s.slow)
	b, err := os.ReadFile(filepath.Join(dir, "model"))
	if err == nil && string(b) == "corrupt" {
		err = errors.New("checksum differs")
	}
	if err != nil {
		return nil, err
	}
	f := &fake{content: string(b), server: s}
	if before != nil {
		f.before = before.content
		if before.closed.Load() {
			s.t.Errorf("version %d is opened upon one that is closed", n)
		}
	}
	return f, nil
}

func (s *server) note(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf("%s/%d %s", e.Model, e.Number, [...]string{"loading", "available", "unloading", "ended"}[e.State]))
}

// reported returns the events.
func (s *server) reported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// write makes version n; its appearance is atomic.
func (s *server) write(n int64, content string) {
	s.t.Helper()
	tmp := filepath.Join(s.base, fmt.Sprintf(".tmp-%d", n))
	if err := errors.Join(os.MkdirAll(tmp, 0o755), os.WriteFile(filepath.Join(tmp, "model"), []byte(content), 0o644)); err != nil {
		s.t.Fatal(err)
	}
	dir := filepath.Join(s.base, fmt.Sprint(n))
	if err := errors.Join(os.RemoveAll(dir), os.Rename(tmp, dir)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) set(c ...Config) error {
	for i := range c {
		if c[i].Base == "" {
			c[i].Base = s.base
		}
	}
	return s.Set(context.Background(), c)
}

// serves fails unless a request gets version n; 0 means none.
func (s *server) serves(w Want, n int64) {
	s.t.Helper()
	w.Model = "m"
	v, err := s.Acquire(w)
	if err != nil {
		if n != 0 {
			s.t.Errorf("%+v: %v", w, err)
		}
		return
	}
	defer v.Release()
	if v.Number != n || v.Model.closed.Load() {
		s.t.Errorf("%+v: version %d, want %d; closed %v", w, v.Number, n, v.Model.closed.Load())
	}
}

func version(n int64) Want { return Want{Version: n, HasVersion: true} }

func TestVersionsSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		s.write(1, "one")
		fatal.If(t, s.set(Config{Name: "m", Labels: map[string]int64{"stable": 1, "next": 2}}))
		s.serves(Want{}, 1)
		s.serves(Want{Label: "stable"}, 1)
		s.serves(Want{Label: "next"}, 0)
		s.slow = 10 * time.Second
		s.write(2, "two")
		held, err := s.Acquire(Want{Model: "m"})
		fatal.If(t, err)
		time.Sleep(5 * time.Second)
		s.serves(Want{}, 1) // while 2 is opened
		time.Sleep(10 * time.Second)
		s.serves(Want{}, 2)
		s.serves(Want{Label: "next"}, 2)
		s.serves(version(1), 0)
		if v, err := s.Acquire(Want{Model: "m"}); err != nil || v.Model.before != "one" {
			t.Errorf("version 2 was opened upon %q, %v", v.Model.before, err)
		} else {
			v.Release()
		}
		if held.Model.closed.Load() {
			t.Error("a version in use was closed")
		}
		held.Release()
		synctest.Wait()
		if !held.Model.closed.Load() {
			t.Error("a version that nothing uses was not closed")
		}
		want := []string{"m/1 loading", "m/1 available", "m/2 loading", "m/2 available", "m/1 unloading", "m/1 ended"}
		if !slices.Equal(s.reported(), want) {
			t.Errorf("events %v", s.reported())
		}
	})
}

func TestCorruptVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		s.write(1, "one")
		s.write(2, "corrupt")
		fatal.If(t, s.set(Config{Name: "m"}))
		s.serves(Want{}, 1) // the newest that can be opened
		s.write(3, "corrupt")
		time.Sleep(10 * time.Second)
		s.serves(Want{}, 1)
		all, _ := s.Status("m")
		if len(all) != 3 || all[0].Number != 3 || all[0].State != Ended || all[0].Err == nil || all[2].State != Available {
			t.Errorf("%+v", all)
		}
		n := len(s.reported())
		time.Sleep(10 * time.Second)
		if len(s.reported()) != n {
			t.Errorf("a corrupt version is tried again: %v", s.reported()[n:])
		}
		s.write(3, "three")
		time.Sleep(2 * time.Second)
		s.serves(Want{}, 3)
	})
}

// TestARemovedVersionStaysForABadOne: if the newest version cannot be opened and the current one is
// removed, the current one answers on, instead of an older one. If only the current one is removed,
// the older one answers.
func TestARemovedVersionStaysForABadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		for n := int64(1); n <= 5; n++ {
			s.write(n, fmt.Sprint(n))
		}
		fatal.If(t, s.set(Config{Name: "m"}))
		remove := func(n int64) {
			fatal.If(t, os.RemoveAll(filepath.Join(s.base, fmt.Sprint(n))))
			time.Sleep(5 * time.Second)
		}
		s.write(6, "corrupt")
		time.Sleep(5 * time.Second)
		s.serves(Want{}, 5)
		remove(5)
		s.serves(Want{}, 5)
		s.serves(version(5), 5)
		time.Sleep(time.Minute)
		s.serves(Want{}, 5)
		s.write(7, "seven")
		time.Sleep(5 * time.Second)
		s.serves(Want{}, 7)
		s.serves(version(5), 0)
		remove(6)
		remove(7)
		s.serves(Want{}, 4)
	})
}

func TestNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		if err := s.set(Config{Name: "m"}); err == nil || !strings.Contains(err.Error(), "no version is available") {
			t.Error(err)
		}
		s.write(1, "corrupt")
		if err := s.set(Config{Name: "m"}); err == nil || !strings.Contains(err.Error(), "version 1: checksum differs") {
			t.Error(err)
		}
		if s.Ready()["m"] {
			t.Error("ready without a version")
		}
		s.write(2, "two")
		time.Sleep(2 * time.Second)
		s.serves(Want{}, 2)
		if !s.Ready()["m"] {
			t.Error("not ready")
		}
		away := s.base + ".away"
		fatal.If(t, os.Rename(s.base, away))
		time.Sleep(5 * time.Second)
		s.serves(Want{}, 2)
		fatal.If(t, os.Rename(away, s.base))
		s.write(3, "three")
		time.Sleep(2 * time.Second)
		s.serves(Want{}, 3)
		synctest.Wait() // a look at this moment would find the folder half gone
		seen := len(s.reported())
		fatal.If(t, os.Rename(s.base, away)) // at once, unlike its removal
		time.Sleep(5 * time.Second)
		s.serves(Want{}, 3)
		if events := s.reported()[seen:]; len(events) != 1 || events[0] != "m/-1 loading" {
			t.Errorf("a lost base folder is not reported once: %v", events)
		}
	})
}

func TestConfigurationsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		for n := range int64(4) {
			s.write(n, fmt.Sprint(n))
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(s.set(Config{Name: "m", Policy: Policy{All: true}}))
		for n := range int64(4) {
			s.serves(version(n), n)
		}
		must(s.set(Config{Name: "m", Policy: Policy{Specific: []int64{1, 2}}, Labels: map[string]int64{"a": 1}}, Config{Name: "k"}))
		s.serves(Want{}, 2)
		s.serves(Want{Label: "a"}, 1)
		s.serves(version(3), 0)
		if got := s.Models(); !slices.Equal(got, []string{"k", "m"}) {
			t.Errorf("models %v", got)
		}
		other := newServer(t)
		other.write(2, "other two")
		must(s.set(Config{Name: "m", Base: other.base}))
		v, err := s.Acquire(Want{Model: "m"})
		must(err)
		if v.Model.content != "other two" {
			t.Errorf("content %q of another base folder", v.Model.content)
		}
		v.Release()
		if _, err := s.Acquire(Want{Model: "k"}); err == nil {
			t.Error("a model that was removed is served")
		}
	})
}

func TestWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		s.write(1, "one")
		fatal.If(t, s.set(Config{Name: "m"}))
		for want, bad := range map[string]struct {
			Want
			notFound bool
		}{
			"names no model":             {Want{}, false},
			"both version 1 and label":   {Want{Model: "m", Version: 1, HasVersion: true, Label: "a"}, false},
			`has no label "a"`:           {Want{Model: "m", Label: "a"}, false},
			`there is no model "x"`:      {Want{Model: "x"}, true},
			"version 9 is not available": {Want{Model: "m", Version: 9, HasVersion: true}, true},
		} {
			_, err := s.Acquire(bad.Want)
			if _, is := errors.AsType[*NotFound](err); is != bad.notFound || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}

func TestSetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		s.write(1, "one")
		s.slow = time.Minute
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Set(ctx, []Config{{Name: "m", Base: s.base}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Requests never get a closed version while versions change.
func TestRequestsDuringSwitches(t *testing.T) {
	s := newServer(t)
	s.Registry = New(Options[*fake]{Open: s.load, Poll: time.Millisecond, Report: s.note})
	s.write(1, "1")
	fatal.If(t, s.set(Config{Name: "m"}))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				v, err := s.Acquire(Want{Model: "m"})
				if err != nil {
					t.Error(err)
					return
				}
				if v.Model.closed.Load() || v.Number < last {
					t.Errorf("version %d after %d, closed %v", v.Number, last, v.Model.closed.Load())
				}
				last = v.Number
				v.Release()
			}
		})
	}
	for n := range int64(30) {
		s.write(n+2, fmt.Sprint(n+2))
		time.Sleep(3 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	s.Close()
}

// TestPinsAreLabels: the pins of the base folder are labels, and their versions are served in
// addition to the policy's. A request that names no version gets none of them. A label of the
// configuration precedes a pin. A pin to a version that is gone, or a bad file, changes nothing else.
func TestPinsAreLabels(t *testing.T) {
	s := newServer(t)
	defer s.Close()
	for n := int64(1); n <= 9; n++ {
		s.write(n, fmt.Sprint(n))
	}
	for label, n := range map[string]int64{"stable": 3, "canary": 9, "gone": 77, "both": 3} {
		fatal.If(t, ledger.WritePin(s.base, label, n))
	}
	fatal.If(t, os.WriteFile(filepath.Join(s.base, "pins", "bad"), []byte("x"), 0o600))
	specific := Config{Name: "m", Policy: Policy{Specific: []int64{5}}, Labels: map[string]int64{"both": 5}}
	fatal.If(t, s.set(specific))
	s.serves(Want{}, 5)
	s.serves(Want{Label: "stable"}, 3)
	s.serves(Want{Label: "canary"}, 9)
	s.serves(Want{Label: "both"}, 5)
	s.serves(Want{Label: "gone"}, 0)
	s.serves(Want{Version: 4, HasVersion: true}, 0)
	if !strings.Contains(strings.Join(s.reported(), "\n"), "m/-1") {
		t.Error("a file in pins that is not used is not reported")
	}
	fatal.If(t, s.set(Config{Name: "m"})) // the latest
	s.serves(Want{}, 9)
	s.serves(Want{Label: "canary"}, 9)
	s.serves(Want{Label: "stable"}, 3)
	_, err := ledger.RemovePin(s.base, "stable")
	fatal.If(t, err)
	fatal.If(t, ledger.WritePin(s.base, "both", 7))
	fatal.If(t, s.set(Config{Name: "m"}))
	s.serves(Want{Label: "both"}, 7)
	s.serves(Want{Version: 3, HasVersion: true}, 0)
	if _, err := s.Acquire(Want{Model: "m", Label: "stable"}); err == nil || !strings.Contains(err.Error(), `no label "stable"`) {
		t.Error(err)
	}
}
