package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 2 * time.Second

// progress writes how much of a command without ranks is done. A goroutine writes a line every
// progressEvery, so that no long piece of work delays one. The launcher shows the progress of
// ranks.
type progress struct {
	mu          sync.Mutex
	to          io.Writer
	what, size  string
	done, total int64
	began       time.Time     // of the command
	ended       chan struct{} // closed by end; nil: nothing has begun
}

// writeTo sets the writer of the lines.
func (p *progress) writeTo(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = w
}

// begin begins a part of the command and returns a function that sets how much of total is done.
// Lines show the share of size, a description of total, or the time if total is 0.
func (p *progress) begin(what string, total int64, size string) func(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.size, p.done, p.total = what, size, 0, total
	if p.ended == nil {
		p.began, p.ended = time.Now(), make(chan struct{})
		go p.run(p.ended)
	}
	return func(done int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done = done
	}
}

// command begins a command, which may have subcommands.
func (p *progress) command(c *cli.Context) error {
	what := c.Command.Name
	if len(c.Command.Subcommands) > 0 {
		what += " " + c.Args().First()
	}
	p.begin(what, 0, "")
	return nil
}

// read begins a part that reads files.
func (p *progress) read(what string, bytes int64) func(done int64) {
	return p.begin(what, bytes, fmt.Sprintf("%.0f MB", float64(bytes)/1e6))
}

// end ends the lines.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		close(p.ended)
		p.ended = nil
	}
}

// run writes lines until ended is closed.
func (p *progress) run(ended chan struct{}) {
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ended:
			return
		case now := <-ticks.C:
			p.line(now)
		}
	}
}

// line writes a line, unless end was called.
func (p *progress) line(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended == nil:
	case p.done > 0 && p.total > 0: // of a compressed file, nothing is done before its end
		fmt.Fprintf(p.to, "%s: %d %% of %s\n", p.what, 100*p.done/p.total, p.size)
	default:
		fmt.Fprintf(p.to, "%s: %d s\n", p.what, int(now.Sub(p.began).Seconds()))
	}
}
