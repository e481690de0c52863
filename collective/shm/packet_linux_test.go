package shm

import (
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// lonely returns a rank whose only peer is the test.
func lonely() (*Transport, *peer) {
	p := &peer{rank: 1, left: make(chan struct{}), windows: map[windowID]offer{}, came: make(chan struct{}), broken: true}
	return &Transport{size: 2, peers: []*peer{nil, p}, ended: make(chan struct{}), quit: make(chan struct{})}, p
}

// FuzzPacket passes a rank packets that no rank would send.
func FuzzPacket(f *testing.F) {
	f.Add(appendWindow(kindNone, windowID{3, 4}, 100, "no memory"))
	f.Add(appendWindow(kindWindow, windowID{3, 4}, 1<<62, ""))
	f.Add(collective.AppendCause([]byte{kindAbort}, collective.ErrLeft))
	f.Add([]byte{kindGoodbye})
	f.Add([]byte{kindAbort})
	f.Add([]byte{99, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > packetMax {
			return
		}
		tr, p := lonely()
		err := tr.handlePacket(p, b, nil)
		switch {
		case b[0] == kindWindow && err == nil:
			t.Fatal("a window without a file was accepted")
		case err == nil && tr.handlePacket(p, b, nil) == nil && b[0] == kindNone:
			t.Fatal("a window was accepted twice")
		}
		for _, o := range p.windows {
			if o.why == nil || o.p != nil {
				t.Fatalf("a packet without a window was parsed as %+v", o)
			}
		}
	})
}

// TestTagsTravelInPosts: a tag can be encoded in words and decoded again, and different tags
// have different words.
func TestTagsTravelInPosts(t *testing.T) {
	tag := collective.Tag{Channel: 0xabcd, Call: 2, Op: 1, Type: 9, Root: 0xfedc, Step: 1 << 31, Group: 1<<32 - 1, Seq: 1 << 63, Count: 1<<64 - 1}
	if got := tagOf(words(tag)); got != tag {
		t.Errorf("%+v was decoded as %+v", tag, got)
	}
	other := tag
	other.Op = 2
	if words(other) == words(tag) {
		t.Error("different tags have the same words")
	}
}
