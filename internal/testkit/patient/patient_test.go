package patient

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// stopped is a test that records whether it failed, and ends there.
type stopped struct {
	testing.TB
	failed bool
}

func (s *stopped) Helper()             {}
func (s *stopped) Logf(string, ...any) {}
func (s *stopped) Fatalf(string, ...any) {
	s.failed = true
	panic(s)
}

func TestTry(t *testing.T) {
	for _, k := range []struct {
		keeps time.Duration // time that the machine needs
		fails bool
		want  []time.Duration
	}{
		{0, false, []time.Duration{time.Second}},
		{9 * time.Second, false, []time.Duration{time.Second, 8 * time.Second, 64 * time.Second}},
		{time.Hour, true, []time.Duration{time.Second, 8 * time.Second, 64 * time.Second}},
	} {
		var limits []time.Duration
		s := &stopped{TB: t}
		func() {
			defer func() {
				if p := recover(); p != nil && p != s {
					panic(p)
				}
			}()
			Try(s, time.Second, func(limit time.Duration) error {
				if limits = append(limits, limit); limit < k.keeps {
					return errors.New("late")
				}
				return nil
			})
		}()
		if s.failed != k.fails || !slices.Equal(limits, k.want) {
			t.Errorf("a machine that needs %v: failed %v after limits %v", k.keeps, s.failed, limits)
		}
	}
}

// slowly leaves a goroutine that ends after a second.
type slowly struct{}

func (slowly) Run() int {
	go time.Sleep(time.Second)
	return 0
}

func TestSettled(t *testing.T) {
	if code, err := Settled(slowly{}).Run(), goleak.Find(); code != 0 || err != nil {
		t.Errorf("code %d, left: %v", code, err)
	}
}
