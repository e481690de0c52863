package train

import (
	"slices"
	"sync"
)

// warningLog remembers the warnings of a job and what it takes from a source, so that the second training of
// train.refit does not repeat lines of the first, and so that the result has the warnings.
type warningLog struct {
	mu     sync.Mutex
	lines  map[string]bool
	second bool
	kept   []string // the first warnings
}

const (
	maxRemembered = 1000 // lines that are not repeated
	maxKept       = 100  // warnings in the result
)

// keep returns print that also keeps the warnings for the result. It may be called from any goroutine.
func (t *warningLog) keep(print func(line string)) func(line string) {
	return func(line string) {
		t.mu.Lock()
		if len(t.kept) < maxKept && !slices.Contains(t.kept, line) {
			t.kept = append(t.kept, line)
		}
		t.mu.Unlock()
		print(line)
	}
}

// all returns the warnings for the result.
func (t *warningLog) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept)
}

// once returns print without the lines that the first training has printed. It may be called from any
// goroutine.
func (t *warningLog) once(print func(line string)) func(line string) {
	return func(line string) {
		t.mu.Lock()
		if t.lines == nil {
			t.lines = map[string]bool{}
		}
		again := t.second && t.lines[line]
		if len(t.lines) < maxRemembered {
			t.lines[line] = true
		}
		t.mu.Unlock()
		if !again {
			print(line)
		}
	}
}

// beginSecond begins the second training.
func (t *warningLog) beginSecond() {
	t.mu.Lock()
	t.second = true
	t.mu.Unlock()
}
