package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 2 * time.Second

// Progress writes how much of a command without ranks is done. A goroutine writes a line every
// progressEvery, so that no long piece of work delays one. The launcher shows the progress of
// ranks.
type Progress struct {
	mu          sync.Mutex
	to          io.Writer
	what, size  string
	done, total int64
	began       time.Time     // of the command
	ended       chan struct{} // closed by end; nil: nothing has begun
}

// SetWriter sets the writer of the lines.
func (p *Progress) SetWriter(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = w
}

// Begin begins a part of the command and returns a function that sets how much of total is done.
// Lines show the share of size, a description of total, or the time if total is 0.
func (p *Progress) Begin(what string, total int64, size string) func(done int64) {
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

// Command begins a command, which may have subcommands.
func (p *Progress) Command(c *cli.Context) error {
	what := c.Command.Name
	if len(c.Command.Subcommands) > 0 {
		what += " " + c.Args().First()
	}
	p.Begin(what, 0, "")
	return nil
}

// Read begins a part that reads files.
func (p *Progress) Read(what string, bytes int64) func(done int64) {
	return p.Begin(what, bytes, fmt.Sprintf("%.0f MB", float64(bytes)/1e6))
}

// End ends the lines.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		close(p.ended)
		p.ended = nil
	}
}

// run writes lines until ended is closed.
func (p *Progress) run(ended chan struct{}) {
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
func (p *Progress) line(now time.Time) {
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
