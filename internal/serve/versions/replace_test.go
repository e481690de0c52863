package versions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// replace calls Replace with configurations of the test's folder.
func (s *server) replace(c ...Config) error {
	for i := range c {
		if c[i].Base == "" {
			c[i].Base = s.base
		}
	}
	return s.Replace(context.Background(), c)
}

// TestReplaceIsAllOrNothing: if one model of a new configuration cannot be served, all models stay
// as they were: names, policies and labels. Otherwise all change. A version that is open is not
// opened again.
func TestReplaceIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer s.Close()
		for n := int64(1); n <= 3; n++ {
			s.write(n, fmt.Sprint(n))
		}
		fatal.If(t, s.set(Config{Name: "m", Labels: map[string]int64{"a": 3}}))
		s.serves(Want{}, 3)
		first, err := s.Acquire(Want{Model: "m"})
		fatal.If(t, err)
		first.Release()
		s.write(2, "corrupt")
		absent := filepath.Join(s.base, "absent")
		for _, x := range []struct {
			bad  []Config
			want string
		}{
			{[]Config{{Name: "m", Policy: Policy{Specific: []int64{1}}}, {Name: "n", Base: absent}}, "model n: no version is available: base path " + absent},
			{[]Config{{Name: "n", Base: absent}, {Name: "k"}}, "model n: no version is available: base path " + absent},
			{[]Config{{Name: "m", Policy: Policy{Specific: []int64{9}}}}, "model m: base path " + s.base + ": version 9 is not there; there are 3, 2, 1"},
			{[]Config{{Name: "k"}, {Name: "m", Policy: Policy{Specific: []int64{1, 9}}}}, "model m: base path " + s.base + ": version 9 is not there; there are 3, 2, 1"},
			{[]Config{{Name: "m", Policy: Policy{Specific: []int64{1, 2}}}}, "model m: version 2: checksum differs"},
			{[]Config{{Name: "m", Labels: map[string]int64{"b": 1}}, {Name: "m"}}, "model m is given twice"},
		} {
			synctest.Wait()
			before := len(s.reported())
			err := s.replace(x.bad...)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v: %v, want %s", x.bad, err, x.want)
			}
			if synctest.Wait(); len(s.reported()) != before {
				t.Errorf("%v: reported although nothing has changed: %v", x.bad, s.reported()[before:])
			}
			s.serves(Want{}, 3)
			s.serves(Want{Label: "a"}, 3)
			s.serves(version(1), 0)
			if got := s.Models(); !slices.Equal(got, []string{"m"}) {
				t.Errorf("models %v", got)
			}
		}
		s.write(2, "2")
		for range 3 { // again: versions that were adopted are adopted
			fatal.If(t, s.replace(Config{Name: "m", Policy: Policy{Specific: []int64{1, 3}}, Labels: map[string]int64{"b": 1}}, Config{Name: "k", Policy: Policy{Specific: []int64{2}}}))
			s.serves(Want{}, 3)
			s.serves(Want{Label: "b"}, 1)
			s.serves(Want{Label: "a"}, 0)
			fatal.If(t, s.replace(Config{Name: "m", Labels: map[string]int64{"c": 3}}))
			s.serves(Want{Label: "c"}, 3)
			s.serves(version(1), 0)
		}
		synctest.Wait()
		if n := len(slices.DeleteFunc(s.reported(), func(e string) bool { return e != "m/3 loading" })); n != 1 || first.Model.closed.Load() {
			t.Errorf("version 3 was opened %d times, closed %v: %v", n, first.Model.closed.Load(), s.reported())
		}
		s.write(4, "4") // the new configuration follows the folder
		time.Sleep(3 * time.Second)
		s.serves(Want{}, 4)
		synctest.Wait()
		if !first.Model.closed.Load() {
			t.Error("a version that was adopted and replaced is not closed")
		}
		all, _ := s.Status("m")
		if len(all) != 2 || all[1] != (Status{Number: 3, State: Ended}) {
			t.Errorf("%+v", all)
		}
	})
}

// TestReplaceOpensBeforeItSwitches: requests are answered by the versions of before until those of
// the new configuration are open. Close ends a Replace.
func TestReplaceOpensBeforeItSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.write(1, "one")
		s.write(2, "two")
		fatal.If(t, s.set(Config{Name: "m", Policy: Policy{Specific: []int64{1}}}))
		s.slow = time.Minute
		done := make(chan error, 1)
		go func() { done <- s.replace(Config{Name: "m", Policy: Policy{Specific: []int64{2}}}) }()
		time.Sleep(30 * time.Second)
		s.serves(Want{}, 1)
		time.Sleep(40 * time.Second)
		s.serves(Want{}, 2)
		fatal.If(t, <-done)
		if v, err := s.Acquire(Want{Model: "m"}); err != nil || v.Model.before != "one" {
			t.Errorf("version 2 was opened upon %q, %v", v.Model.before, err)
		} else {
			v.Release()
		}
		go func() { done <- s.replace(Config{Name: "k", Policy: Policy{Specific: []int64{1}}}) }()
		time.Sleep(time.Second)
		s.Close()
		if err := <-done; !errors.Is(err, errEnding) {
			t.Error(err)
		}
		if err := s.replace(Config{Name: "m"}); !errors.Is(err, errEnding) {
			t.Error(err)
		}
	})
}
