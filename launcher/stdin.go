package launcher

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// input is the standard input of rank 0. A nil input is empty.
type input struct {
	file *os.File // what the rank reads
	own  bool     // file is the end of a pipe that is ours to close

	from io.Reader // else copied into the pipe
	into io.WriteCloser
	quit chan struct{}
	done chan struct{} // closed when copying has ended, nil before it begins
	tty  *os.File      // from, if it is a terminal
}

// newInput prepares to hand from on, nil for none. With copied it is never handed on as
// it is.
func newInput(from io.Reader, copied bool) (*input, error) {
	if from == nil {
		return nil, nil
	}
	f, isFile := from.(*os.File)
	if isFile && f == nil {
		return nil, nil
	}
	if isFile && !copied && !(canPoll && term.IsTerminal(int(f.Fd()))) {
		return &input{file: f}, nil
	}
	in := &input{own: true, from: from, quit: make(chan struct{})}
	if isFile && canPoll && term.IsTerminal(int(f.Fd())) {
		in.tty = f
	}
	if copied {
		return in, nil
	}
	var err error
	if in.file, in.into, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("launcher: start: rank 0: standard input: %w", err)
	}
	return in, nil
}

// child is what the rank's process is given.
func (in *input) child() io.Reader {
	if in == nil {
		return nil // not a nil file in an interface
	}
	return in.file
}

// run begins to copy, once the process has its end of the pipe. That the rank
// does not read, or has ended, is no error of the job.
func (in *input) run() {
	if in == nil || !in.own {
		return
	}
	in.file.Close()
	in.copy()
}

// copyTo begins to copy to the rank of another host.
func (in *input) copyTo(to io.WriteCloser) {
	in.into = to
	in.copy()
}

func (in *input) copy() {
	in.done = make(chan struct{})
	go func() {
		defer close(in.done)
		defer in.into.Close()
		if in.tty != nil {
			copyTerminal(in.into, in.tty, in.quit)
			return
		}
		io.Copy(in.into, in.from)
	}()
}

// close ends the input. It waits for a terminal's copying to end; a reader of
// another kind keeps its goroutine until its Read returns.
func (in *input) close() {
	if in == nil || !in.own {
		return
	}
	close(in.quit)
	if in.file != nil {
		in.file.Close() // if the process was not started
	}
	if in.into != nil {
		in.into.Close() // ends a write that is not read
	}
	if in.tty != nil && in.done != nil {
		<-in.done
	}
}
