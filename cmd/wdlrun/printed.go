package main

import (
	"io"
	"sync"
)

// printed is standard output. It remembers the first write that failed, so that a result
// that was not delivered is not reported as success.
type printed struct {
	to io.Writer

	mu   sync.Mutex
	lost error
}

func (o *printed) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.lost == nil {
			o.lost = err
		}
	}
	return n, err
}

// fault is the first write's that failed, nil if none did.
func (o *printed) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
