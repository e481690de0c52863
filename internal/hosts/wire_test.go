package hosts

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzRead: a message that is accepted is equal after writing and reading.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	fatal.If(f, WriteJSON(&b, Message{What: Start, Rank: 3, Command: []string{"a", "b\n"}, Env: []string{"X=1"}}, maxMessage))
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Message
		if ReadJSON(bytes.NewReader(b), &m, maxHeader) != nil {
			return
		}
		var out bytes.Buffer
		fatal.If(t, WriteJSON(&out, m, 16*maxHeader))
		if err := ReadJSON(&out, &again, 16*maxHeader); err != nil || out.Len() != 0 {
			t.Fatal(err)
		}
		var once, twice bytes.Buffer
		WriteJSON(&once, m, 16*maxHeader)
		WriteJSON(&twice, again, 16*maxHeader)
		if once.String() != twice.String() {
			t.Errorf("%+v was read as %+v", m, again)
		}
	})
}

// TestLimits: a message that is too long is neither written nor read.
func TestLimits(t *testing.T) {
	if err := WriteJSON(io.Discard, Message{Text: strings.Repeat("x", maxMessage)}, maxMessage); err == nil || !strings.Contains(err.Error(), "at most 4194304") {
		t.Error(err)
	}
	var m Message
	if err := ReadJSON(strings.NewReader("\x00\x40\x00\x01"), &m, maxMessage); err == nil || !strings.Contains(err.Error(), "4194305 bytes") {
		t.Error(err)
	}
	if err := ReadJSON(strings.NewReader("\x00\x00\x00\x09{"), &m, maxMessage); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Error(err)
	}
}

// TestLink sends messages and streams in both directions, and notices the end.
func TestLink(t *testing.T) {
	a, b := net.Pipe()
	var there *Link
	var err2 error
	var both sync.WaitGroup
	both.Go(func() { there, err2 = Answer(b) })
	here, err := Call(a)
	fatal.If(t, err)
	job := Message{What: Job, Protocol: Protocol, Env: []string{"A=b"}, Command: []string{""}}
	fatal.If(t, here.Send(job))
	both.Wait()
	if err2 != nil {
		t.Fatal(err2)
	}
	if here.limit != silentTime || there.limit <= here.limit {
		t.Errorf("the launcher waits %v, the host process %v, which must be longer", here.limit, there.limit)
	}
	if m, err := there.Receive(); err != nil || !reflect.DeepEqual(m, job) {
		t.Errorf("%+v, %v", m, err)
	}
	s, err := there.Open(Header{What: Output, Rank: 2, FD: 1})
	fatal.If(t, err)
	both.Go(func() { s.Write([]byte("line\n")); s.Close() })
	h, stream, err := here.Accept()
	if err != nil || h != (Header{What: Output, Rank: 2, FD: 1}) {
		t.Fatal(h, err)
	}
	if got, err := io.ReadAll(stream); err != nil || string(got) != "line\n" {
		t.Errorf("%q, %v", got, err)
	}
	both.Wait()
	here.Close()
	<-there.Gone()
	<-here.Gone()
	if there.Silent() {
		t.Error("the end of the stream is reported as silence")
	}
	there.Close()
}

// TestIdle: received bytes reset the idle time.
func TestIdle(t *testing.T) {
	h := newTimedConn(struct {
		io.Reader
		io.WriteCloser
	}{Reader: strings.NewReader("x")})
	h.begin = time.Now().Add(-time.Hour)
	if h.idle() < time.Hour {
		t.Error("a connection without bytes is not idle")
	}
	if _, err := io.ReadAll(h); err != nil || h.idle() > time.Minute {
		t.Errorf("idle for %s after bytes have just been received (%v)", h.idle(), err)
	}
}

// TestSilence: the other side is lost if it has not answered for 4 s in which this process
// was running.
func TestSilence(t *testing.T) {
	start := time.Now()
	for _, x := range []struct {
		name     string
		answered func(second float64) bool
		stopped  [2]float64 // from and to, in seconds
		want     float64    // when it is lost, 0 for never
	}{
		{"answers", func(float64) bool { return true }, [2]float64{}, 0},
		{"never answers", func(float64) bool { return false }, [2]float64{}, 4},
		{"answers until second 3", func(s float64) bool { return s <= 3 }, [2]float64{}, 7},
		{"answers every third second", func(s float64) bool { return int(s*2)%6 == 0 }, [2]float64{}, 0},
		{"this process is stopped", func(s float64) bool { return s < 2 || s > 13 }, [2]float64{2, 12}, 0},
		{"it does not answer afterwards", func(s float64) bool { return s < 2 }, [2]float64{2, 12}, 16},
	} {
		q, last, gone := newSilence(start, silentTime), start, 0.0
		for s := 0.5; s <= 30 && gone == 0; s += 0.5 {
			if s > x.stopped[0] && s < x.stopped[1] {
				continue
			}
			now := start.Add(time.Duration(s * float64(time.Second)))
			if q.tooLong(now, now.Sub(last)) {
				gone = s
			}
			if x.answered(s) {
				last = now
			}
		}
		if gone != x.want {
			t.Errorf("%s: lost after %g s, want %g", x.name, gone, x.want)
		}
	}
}
