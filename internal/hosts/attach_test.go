package hosts

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzFrame: a frame that is accepted is encoded as the same bytes.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{frameOut, 0, 0, 0, 2, 'h', 'i'})
	f.Add([]byte{frameDone, 0, 1, 0, 1})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, got, err := readFrame(bytes.NewReader(b), make([]byte, maxFrame))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := writeFrame(&out, kind, got); err != nil || !bytes.HasPrefix(b, out.Bytes()) {
			t.Errorf("%q was encoded as %q, %v", b, out.Bytes(), err)
		}
	})
}

// TestFrameLimits: a frame that is too long, or of an unknown kind, is rejected.
func TestFrameLimits(t *testing.T) {
	for frame, want := range map[string]string{
		"\x01\x00\x01\x00\x01":  "kind 1 with 65537 bytes, at most 65536",
		"\x04\x00\x00\x00\x00":  "kind 4",
		"\x01\x00\x00\x00\x02a": "unexpected EOF",
	} {
		if _, _, err := readFrame(strings.NewReader(frame), make([]byte, maxFrame)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", frame, err, want)
		}
	}
}

// carry runs a shell script as the host process at the other end of a connection.
func carry(t *testing.T, script string, stderr io.Writer) (p *Process, done chan error) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "s")})
	fatal.If(t, err)
	defer ln.Close()
	near, err := net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	fatal.If(t, err)
	far, err := ln.AcceptUnix()
	fatal.If(t, err)
	done = make(chan error, 1)
	go func() {
		defer far.Close()
		cmd := exec.Command("sh", "-c", script)
		done <- Carry(far, cmd, (*exec.Cmd).Start, func() error { return nil })
	}()
	p = Attach("c", near, stderr)
	t.Cleanup(func() { p.Close() })
	return p, done
}

// TestCarry: a host process reads and writes through its agent, and its end is explained.
func TestCarry(t *testing.T) {
	var said bytes.Buffer
	p, done := carry(t, "head -c 300000 /dev/zero; read line; echo got $line; echo why >&2; exit 7", &said)
	if _, err := p.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p)
	if want := strings.Repeat("\x00", 300000) + "got hello\n"; err != nil || string(got) != want {
		t.Errorf("%d bytes, want %d; they end with %q, %v", len(got), len(want), got[max(0, len(got)-20):], err)
	}
	if why := p.Why(); why != "sh ended with exit code 7: why" || said.String() != "wdlrun: host c: why\n" {
		t.Errorf("%q; %q", why, said.String())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCarryEnds: the process ends with the stream, whichever side ends it, also one whose output
// is not read.
func TestCarryEnds(t *testing.T) {
	for name, x := range map[string]struct {
		script string
		end    func(p *Process)
		why    string
	}{
		"close":  {"cat", func(p *Process) { p.in.Close(); <-p.ended }, "sh ended with exit code 0"}, // without the time limit of Close
		"kill":   {"cat", (*Process).Kill, errCut.Error()},
		"unread": {"yes & cat; kill $!", (*Process).Kill, errCut.Error()},
		"killed": {"kill -9 $$", func(*Process) {}, "sh was killed by signal 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, done := carry(t, x.script, io.Discard)
			x.end(p)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if why := p.Why(); why != x.why {
				t.Errorf("%q, want %q", why, x.why)
			}
		})
	}
	far, near := net.Pipe()
	near.Close()
	if err := Carry(noStream{far}, exec.Command("/nonexistent"), (*exec.Cmd).Start, nil); err == nil {
		t.Error("a missing program was started")
	}
}

// noStream is a connection without halves.
type noStream struct{ net.Conn }

func (noStream) CloseWrite() error { return nil }
