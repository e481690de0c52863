package launcher

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/wdlrun/wdlrun/internal/runs/pace"
	"github.com/wdlrun/wdlrun/rank"
)

// display shows rank 0's progress on standard error: a line that is rewritten on a
// terminal, otherwise plain lines at increasing intervals, about 20 in the first hour.
type display struct {
	console  *console
	terminal bool
	width    func() int
	begin    time.Time
	next     time.Duration // time of the next plain line
	pace     progressPace

	latest chan rank.Status // status to show next; a newer one replaces it
	ended  chan struct{}
}

// newDisplay returns a display on c. Its standard error is a terminal only if it is a file
// that is one.
func newDisplay(c *console, now time.Time) *display {
	d := &display{console: c, begin: now, next: time.Second, width: func() int { return 80 },
		latest: make(chan rank.Status, 1), ended: make(chan struct{})}
	if f, ok := c.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		d.terminal = true
		d.width = func() int {
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil || w < 20 {
				return 80
			}
			return w
		}
	}
	return d
}

// spacing is the ratio of the times of successive plain lines: 1.0, 1.5, 2.3, 3.4, 5.1 s …,
// 19 of them in the first half hour.
const spacing = 1.5

// update shows a new status.
func (d *display) update(now time.Time, s rank.Status) {
	if s.Step == 0 && s.Samples == 0 && s.Phase == "" {
		return // the program reports no progress
	}
	at := now.Sub(d.begin)
	d.pace.record(s, at)
	if d.terminal {
		line := progressLine(s, at, &d.pace)
		if width := d.width() - 1; utf8.RuneCountInString(line) > width {
			line = string([]rune(line)[:width])
		}
		d.console.show(line)
		return
	}
	if at < d.next {
		return
	}
	d.next = time.Duration(float64(at) * spacing)
	d.console.write(d.console.stderr, []byte(progressLine(s, at, &d.pace)+"\n"))
}

// run shows the statuses of offer until close. It runs in its own goroutine, so that a
// blocked terminal blocks only what is written to it.
func (d *display) run() {
	defer close(d.ended)
	for s := range d.latest {
		d.update(time.Now(), s)
	}
	d.end()
}

// offer passes a status to run without blocking. Only one goroutine calls it.
func (d *display) offer(s rank.Status) {
	select {
	case <-d.latest:
	default:
	}
	d.latest <- s
}

// close ends run. It waits at most reapTime for the terminal.
func (d *display) close() {
	close(d.latest)
	select {
	case <-d.ended:
	case <-time.After(reapTime):
	}
}

// end removes the line from the terminal.
func (d *display) end() {
	if d.terminal {
		d.console.show("")
	}
}

// progressLine formats a status, without the parts that are "".
func progressLine(s rank.Status, elapsed time.Duration, p *progressPace) string {
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case s.Steps > 0:
		add("step %d/%d", s.Step, s.Steps)
	case s.Step > 0:
		add("step %d", s.Step)
	case s.Phase != "":
		add("%s", s.Phase)
	}
	switch {
	case s.Span > 0:
		add("span %d", s.Span)
	case s.Epochs > 1:
		add("epoch %d/%d", s.Epoch, s.Epochs)
	case s.Epoch > 0:
		add("epoch %d", s.Epoch)
	}
	if s.SamplesPerSecond > 0 {
		add("%s samples/s", short(s.SamplesPerSecond))
	}
	if s.Loss != 0 {
		add("loss %.4f", s.Loss)
	}
	if eta, ok := p.remaining(s); ok && s.MayEnd {
		add("at most %s left", clock(eta))
	} else if ok {
		add("%s left", clock(eta))
	} else {
		add("%s", clock(elapsed))
	}
	if still := p.still(elapsed); still > 0 {
		add("no step for %s", clock(still))
	}
	return strings.Join(parts, " · ")
}

// progressPace is the rate of steps, from the first step seen to the latest new one. Before the
// first, ranks started and may have restored a checkpoint. The rate does not change while a
// rank makes no progress.
type progressPace struct {
	first, last     int64
	firstAt, lastAt time.Duration
	steps, samples  pace.Pace
}

// record records the step of a status.
func (p *progressPace) record(s rank.Status, at time.Duration) {
	switch step := s.Step; {
	case step <= 0:
		return
	case p.first == 0 || step < p.last: // the first step, or steps that are repeated
		*p = progressPace{first: step, last: step, firstAt: at, lastAt: at}
	case step > p.last:
		p.last, p.lastAt = step, at
	default:
		return
	}
	p.steps.See(at, s.Step)
	p.samples.See(at, s.Samples)
}

// remaining estimates the time to the last step: by the program's speed and the samples of recent
// steps, or by the mean duration of a step if the program does not report them.
func (p *progressPace) remaining(s rank.Status) (time.Duration, bool) {
	if s.Steps <= 0 || p.last <= p.first || p.last > s.Steps {
		return 0, false
	}
	step := float64(p.lastAt-p.firstAt) / float64(p.last-p.first)
	steps, _ := p.steps.Recent()
	if samples, _ := p.samples.Recent(); samples > 0 && s.SamplesPerSecond > 0 {
		step = float64(samples) / float64(steps) / s.SamplesPerSecond * float64(time.Second)
	}
	eta := step * float64(s.Steps-p.last)
	if math.IsNaN(eta) || eta > float64(1000*time.Hour) {
		return 0, false
	}
	return time.Duration(eta), true
}

// stillness is the least time without a step, beyond the time of ten usual steps, that is
// reported.
const stillness = 5 * time.Second

// still returns the time since the last step, or 0 if it is usual.
func (p *progressPace) still(at time.Duration) time.Duration {
	if p.last <= p.first || at-p.lastAt < max(stillness, 10*(p.lastAt-p.firstAt)/time.Duration(p.last-p.first)) {
		return 0
	}
	return at - p.lastAt
}

// short formats a count with three significant digits.
func short(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "?"
	case x >= 999.5e3:
		return fmt.Sprintf("%.3gM", x/1e6)
	case x >= 999.5:
		return fmt.Sprintf("%.3gk", x/1e3)
	}
	return fmt.Sprintf("%.3g", x)
}

// clock formats a duration as m:ss or h:mm:ss.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
