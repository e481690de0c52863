package train

import "sync"

// warningLog remembers the warnings of a job and what it takes from a source, so that the second training of
// train.refit does not repeat lines of the first.
type warningLog struct {
	mu     sync.Mutex
	lines  map[string]bool
	second bool
}

// maxRemembered bounds the lines that are remembered.
const maxRemembered = 1000

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
