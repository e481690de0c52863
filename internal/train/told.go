package train

import "sync"

// told remembers the warnings of a job, so that the second training of train.refit does not repeat those of
// the first.
type told struct {
	mu     sync.Mutex
	lines  map[string]bool
	second bool
}

// maxTold bounds the warnings that are remembered.
const maxTold = 1000

// warner returns warn without the lines that the first training has printed. It may be called from any
// goroutine.
func (t *told) warner(warn func(line string)) func(line string) {
	t.lines = map[string]bool{}
	return func(line string) {
		t.mu.Lock()
		again := t.second && t.lines[line]
		if len(t.lines) < maxTold {
			t.lines[line] = true
		}
		t.mu.Unlock()
		if !again {
			warn(line)
		}
	}
}

// again begins the second training.
func (t *told) again() {
	t.mu.Lock()
	t.second = true
	t.mu.Unlock()
}
