// Package pace measures the rate of recent progress.
package pace

import "time"

// Window is the time over which a rate is measured, at least the last two marks.
const Window = 10 * time.Second

// slots is the number of marks in a Window.
const slots = 20

// Pace is the recent rate of a count on a clock that may stop, such as the time in training steps.
type Pace struct {
	marks []mark // ascending; the last is the latest
}

type mark struct {
	at    time.Duration
	count int64
}

// See records the count at a time. A count or a time below the last one starts again.
func (p *Pace) See(at time.Duration, count int64) {
	n := len(p.marks)
	if n > 0 && (at < p.marks[n-1].at || count < p.marks[n-1].count) {
		n = 0
	}
	p.marks = p.marks[:n]
	if n > 1 && at-p.marks[n-2].at < Window/slots {
		p.marks[n-1] = mark{at, count}
		return
	}
	p.marks = append(p.marks, mark{at, count})
	old := 0
	for len(p.marks)-old > 2 && at-p.marks[old+1].at >= Window {
		old++
	}
	p.marks = append(p.marks[:0], p.marks[old:]...)
}

// Recent returns the count and the time between the first and the last mark of the window. Both
// are 0 until there are two marks.
func (p *Pace) Recent() (count int64, took time.Duration) {
	n := len(p.marks)
	if n < 2 {
		return 0, 0
	}
	return p.marks[n-1].count - p.marks[0].count, p.marks[n-1].at - p.marks[0].at
}

// Rate returns the count per second; 0 if it is not known yet.
func (p *Pace) Rate() float64 {
	count, took := p.Recent()
	if took <= 0 {
		return 0
	}
	return float64(count) / took.Seconds()
}
