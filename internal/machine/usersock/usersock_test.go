package usersock

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestConversation connects two ends, rejects a second listener, and finds no listener
// after the end of the first.
func TestConversation(t *testing.T) {
	folder, name := t.TempDir(), fmt.Sprintf("test-%d", os.Getpid())
	if _, err := Dial(folder, name); err == nil {
		t.Fatal("a connection without a listener")
	}
	ln, err := Listen(folder, name)
	fatal.If(t, err)
	if _, err := Listen(folder, name); !errors.Is(err, ErrInUse) {
		t.Errorf("a second listener: %v", err)
	}
	conn, err := Dial(folder, name)
	fatal.If(t, err)
	other, err := Accept(ln)
	fatal.If(t, err)
	conn.Write([]byte("x"))
	b := make([]byte, 1)
	if n, err := other.Read(b); n != 1 || b[0] != 'x' || err != nil {
		t.Errorf("read %q, %v", b[:n], err)
	}
	conn.Close()
	other.Close()
	ln.Close()
	if _, err := Dial(folder, name); err == nil {
		t.Error("a connection after the end of the listener")
	}
	if left, err := os.ReadDir(folder); len(left) != 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
}
