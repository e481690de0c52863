package hosts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// An agent sends the output of a host process in frames: a kind, the length in 4 bytes, and
// that many bytes. Data for the host process has no frames.
const (
	frameOut  = 1 // standard output
	frameErr  = 2 // standard error
	frameDone = 3 // how the process ended; the last frame

	frameHead = 5
	maxFrame  = 64 << 10
)

// writeFrame writes a frame.
func writeFrame(w io.Writer, kind byte, b []byte) error {
	frame := append(make([]byte, 0, frameHead+len(b)), kind)
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(b))), b...)
	_, err := w.Write(frame)
	return err
}

// readFrame reads a frame into buf, which has maxFrame bytes.
func readFrame(r io.Reader, buf []byte) (kind byte, b []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame || head[0] < frameOut || head[0] > frameDone {
		return 0, nil, fmt.Errorf("hosts: read: frame of kind %d with %d bytes, at most %d are allowed", head[0], n, maxFrame)
	}
	_, err = io.ReadFull(r, buf[:n])
	return head[0], buf[:n], err
}

// Stream is a connection whose directions end separately.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// leaveTime bounds the time until a host process ends after its launcher is gone.
const leaveTime = 5 * time.Second

// Carry starts a host process whose launcher is at the other end of s, and returns when the
// process has ended and the launcher has received its last frame. The process ends when s
// ends. started is called before anything is sent. An error means that the process was not
// started.
func Carry(s Stream, cmd *exec.Cmd, run Run, started func() error) error {
	var mu sync.Mutex
	cmd.Stdout, cmd.Stderr = &framed{s, frameOut, &mu}, &framed{s, frameErr, &mu}
	cmd.WaitDelay = closeTime
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	mu.Lock()
	if err := run(cmd); err != nil {
		mu.Unlock()
		in.Close()
		return err
	}
	started() // its error is that of the stream, whose reader returns too
	mu.Unlock()
	ended, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(in, s)
		in.Close()
		select {
		case <-ended:
		case <-time.After(leaveTime):
			cmd.Process.Kill()
		}
		io.Copy(io.Discard, s)
	}()
	cmd.Wait()
	close(ended)
	s.SetWriteDeadline(time.Now().Add(closeTime)) // also ends a write that blocks
	mu.Lock()
	defer mu.Unlock()
	writeFrame(s, frameDone, []byte(ending(filepath.Base(cmd.Args[0]), cmd.ProcessState)))
	s.SetReadDeadline(time.Now().Add(closeTime))
	<-drained // the launcher has read the last frame: an agent may end now
	return nil
}

// framed writes the output of a process as frames.
type framed struct {
	to   io.Writer
	kind byte
	mu   *sync.Mutex
}

func (f *framed) Write(b []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), maxFrame)]
		err = writeFrame(f.to, f.kind, part)
		n, b = n+len(part), b[len(part):]
	}
	return n, err
}

// errCut is the reason of the end if the agent sent none.
var errCut = errors.New("the connection to its agent has ended: that agent or the one here was stopped, or the network has failed")

// Attach returns the host process whose agent is at the other end of conn.
func Attach(host string, conn Stream, stderr io.Writer) *Process {
	out, to := io.Pipe()
	how := errCut.Error()
	p := &Process{host: host, in: writeHalf{conn, conn.CloseWrite}, out: out, pipe: out, stderr: &tail{to: stderr, host: host}, ended: make(chan struct{})}
	p.kill = func() { conn.Close(); out.Close() }
	p.how = func() string { return how }
	p.stderr.pass()
	go func() {
		defer close(p.ended)
		defer conn.Close()
		defer to.Close()
		buf := make([]byte, maxFrame)
		for {
			kind, b, err := readFrame(conn, buf)
			if err != nil {
				return
			}
			switch kind {
			case frameOut:
				to.Write(b) // after an error the reader is gone
			case frameErr:
				p.stderr.Write(b)
			case frameDone:
				how = string(b)
				return
			}
		}
	}()
	return p
}

// writeHalf is the write direction of a connection.
type writeHalf struct {
	io.Writer
	end func() error
}

func (w writeHalf) Close() error { return w.end() }
