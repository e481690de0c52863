package tcp

import (
	"bytes"
	"errors"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// FuzzParseFrame: a frame header that is accepted is encoded as the same bytes.
func FuzzParseFrame(f *testing.F) {
	f.Add(appendFrame(nil, collective.Tag{Call: collective.CallAllReduce, Seq: 3, Count: 9}, 36, 2))
	f.Add([]byte("WDF1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tag, n, core, err := parseFrame(b)
		if err != nil {
			return
		}
		if n < 0 || !bytes.Equal(appendFrame(nil, tag, int(n), core), b) {
			t.Fatalf("%x was parsed as %v of %d bytes", b, tag, n)
		}
	})
}

// FuzzReadControl: reading a control frame consumes at most one frame, and only an abort has a cause.
func FuzzReadControl(f *testing.F) {
	f.Add(controlOf(kindAbort, collective.AppendCause(nil, errors.New("so"))))
	f.Add(controlOf(kindGoodbye, nil))
	f.Add(controlOf(kindProbe, nil))
	f.Add(controlOf(kindProcess, []byte{1, 2, 3, 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		c, err := readControl(r)
		if err == nil && (c.kind == kindAbort) != (c.cause != nil) {
			t.Fatalf("%x was parsed as %+v", b, c)
		}
		if read := len(b) - r.Len(); read > controlSize+collective.MaxCause {
			t.Fatalf("%d bytes read for one frame", read)
		}
	})
}

// FuzzParseHello: a hello that is accepted is equal after encoding and parsing, and a hello for
// another group is rejected.
func FuzzParseHello(f *testing.F) {
	f.Add(hello{link: linkControl, from: 1, size: 2, channels: 2, streams: 1, generation: 7}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != helloSize {
			return
		}
		h, err := parseHello([helloSize]byte(b))
		if err != nil {
			return
		}
		if again, err := parseHello([helloSize]byte(h.append(nil))); err != nil || again != h {
			t.Fatalf("%x was parsed as %+v, and its encoding as %+v, %v", b, h, again, err)
		}
		if s, err := h.judge(hello{size: 4, channels: 2, streams: 1}, 1); err == nil && (s != statusOK || h.from < 2 || h.from > 3 || h.to != 1) {
			t.Fatalf("rank 1 of 4 accepts %+v", h)
		}
	})
}

// TestSteadyStateAllocatesNothing: after the first calls, a call allocates no memory.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const runs = 100
	ts := group(t, 3) // each posts two messages of an all-to-all
	defer closeAll(ts)
	step := func(tr *Transport) func() error {
		c, x, y, z := collective.New(tr), make([]float32, 20000), make([]int64, 3), make([]int64, 3)
		return func() error {
			return errors.Join(collective.AllReduce(c, x, collective.Sum), collective.AllToAll(c, y, z), collective.Barrier(c))
		}
	}
	done := make(chan error)
	for _, tr := range ts[1:] {
		go func() {
			f := step(tr)
			var err error
			for range runs + 1 { // AllocsPerRun makes one extra call to warm up
				err = errors.Join(err, f())
			}
			done <- err
		}()
	}
	f := step(ts[0])
	if n := testing.AllocsPerRun(runs, func() {
		if err := f(); err != nil {
			t.Error(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations in three calls, want none", n)
	}
	for range ts[1:] {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
