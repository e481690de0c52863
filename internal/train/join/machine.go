package join

import (
	"math"
)

// Rules configure a Machine. Times are milliseconds.
type Rules struct {
	Window int64 // after an impression, in which feedback counts
	Delay  int64 // by which the records of a source may be out of order
	Early  bool  // write an impression at once, and again with its feedback
}

// Outcome is what became of a record.
type Outcome uint8

// Outcomes. Records with the first three are part of the state.
const (
	Opened    Outcome = iota // an impression waits for feedback
	Matched                  // feedback is the label of an open impression
	Held                     // feedback waits for its impression
	Duplicate                // an impression with the key of an open one
	Repeated                 // feedback about an impression that has other feedback
	Late                     // the time of the record is before the watermark
)

// Sample is an impression whose label is decided. Feedback is 0 for a negative one.
type Sample struct {
	Impression, Feedback Ref
	Time                 int64 // of the impression
}

// Output receives the results of a Machine.
type Output interface {
	Sample(Sample)
	Unmatched(feedback Ref) // no impression came in time
}

// Source is a folder or a partition whose records are nearly in order.
type Source struct {
	Name  string `json:"name"`
	Time  *int64 `json:"time,omitempty"` // greatest; nil: no record yet
	Idle  bool   `json:"idle,omitempty"`
	Ended bool   `json:"ended,omitempty"`

	Behind int64 `json:"behind,omitempty"` // in a Status: records of a partition that wait to be read
}

// Machine is the state of a join. It belongs to one goroutine.
type Machine struct {
	rules     Rules
	out       Output
	sources   []Source
	watermark int64
	open      *opened
	held      map[Key][]*feedback
	expiring  queue[*feedback]
	holding   int
	repeated  int64 // feedback about an impression that has other feedback, earlier or later
}

// feedback waits for its impression.
type feedback struct {
	key  Key
	time int64
	ref  Ref // 0: it has one
}

// Bounds of the watermark: before all times, and after all times.
const (
	Never  int64 = math.MinInt64
	Always int64 = math.MaxInt64
)

// NewMachine returns a machine without open impressions. out must not call it.
func NewMachine(rules Rules, out Output) *Machine {
	return &Machine{rules: rules, out: out, watermark: Never, open: newOpened(), held: map[Key][]*feedback{}}
}

// Source returns the number of a source, which is added if it is new.
func (m *Machine) Source(name string) int {
	for i := range m.sources {
		if m.sources[i].Name == name {
			return i
		}
	}
	m.sources = append(m.sources, Source{Name: name})
	return len(m.sources) - 1
}

// Idle records that a source has had no new records for some time.
func (m *Machine) Idle(source int) { m.sources[source].Idle = true }

// End records that a source will have no more records.
func (m *Machine) End(source int) { m.sources[source].Ended = true }

// Watermark returns the time before which no record is expected.
func (m *Machine) Watermark() int64 { return m.watermark }

// Open returns the number of impressions and of feedback that wait.
func (m *Machine) Open() (impressions, feedback int) { return m.open.count, m.holding }

// seen records the time of a record.
func (m *Machine) seen(source int, time int64) {
	s := &m.sources[source]
	if s.Idle = false; s.Time == nil || *s.Time < time {
		s.Time = &time
	}
}

// Impression adds an impression.
func (m *Machine) Impression(source int, key Key, time int64, ref Ref) Outcome {
	m.seen(source, time)
	if _, open := m.open.find(key); open {
		return Duplicate
	}
	if time < m.watermark {
		return Late
	}
	m.opens(key, time, ref)
	return Opened
}

func (m *Machine) opens(key Key, time int64, ref Ref) {
	i := m.open.add(slot{key, time, ref})
	if m.rules.Early {
		m.out.Sample(Sample{ref, 0, time})
	}
	waiting := m.held[key]
	if len(waiting) == 0 {
		return
	}
	rest := waiting[:0]
	for _, f := range waiting {
		if !m.covers(i, f.time) {
			rest = append(rest, f)
			continue
		}
		m.match(i, f.time, f.ref)
		f.ref = 0
		m.holding--
	}
	if m.held[key] = rest; len(rest) == 0 {
		delete(m.held, key)
	}
}

// covers reports whether feedback at a time is about an impression.
func (m *Machine) covers(impression int32, time int64) bool {
	s := m.open.at(impression)
	return time >= s.time && time <= s.time+m.rules.Window
}

// match makes feedback the label of an impression, unless earlier feedback is. A sample that has been
// written does not change.
func (m *Machine) match(impression int32, time int64, ref Ref) Outcome {
	if fed, has := m.open.fed[impression]; has {
		m.repeated++ // one of the two is not used
		if m.rules.Early || fed.time <= time {
			return Repeated
		}
	}
	m.open.fed[impression] = given{ref, time}
	if m.rules.Early {
		s := m.open.at(impression)
		m.out.Sample(Sample{s.ref, ref, s.time})
	}
	return Matched
}

// Feedback adds feedback.
func (m *Machine) Feedback(source int, key Key, time int64, ref Ref) Outcome {
	m.seen(source, time)
	if i, open := m.open.find(key); open && m.covers(i, time) {
		return m.match(i, time, ref)
	}
	if time < m.watermark {
		return Late
	}
	m.hold(key, time, ref)
	return Held
}

func (m *Machine) hold(key Key, time int64, ref Ref) {
	f := &feedback{key, time, ref}
	m.held[key] = append(m.held[key], f)
	m.expiring.push(time, f)
	m.holding++
}

// Advance raises the watermark as far as the sources permit, and writes the samples that it passes.
func (m *Machine) Advance() { m.reach(max(m.watermark, m.least())) }

// least returns the least watermark of the sources that can hold it up.
func (m *Machine) least() int64 {
	least, ended := Always, true
	for i := range m.sources {
		s := &m.sources[i]
		ended = ended && s.Ended
		switch {
		case s.Ended || s.Idle:
		case s.Time == nil:
			return Never
		default:
			least = min(least, *s.Time-m.rules.Delay)
		}
	}
	if least == Always && !ended {
		return Never // all are idle: the next record may be of any time
	}
	return least
}

// reach sets the watermark.
func (m *Machine) reach(watermark int64) {
	m.watermark = watermark
	for {
		i, some := m.open.first()
		if !some || watermark != Always && m.open.at(i).time+m.rules.Window >= watermark {
			break
		}
		if s := m.open.at(i); !m.rules.Early {
			m.out.Sample(Sample{s.ref, m.open.fed[i].ref, s.time})
		}
		m.open.removeFirst()
	}
	for len(m.expiring) > 0 && m.expiring[0].time < watermark {
		f := m.expiring.pop()
		if f.ref == 0 {
			continue
		}
		m.out.Unmatched(f.ref)
		m.forget(f)
	}
}

// forget removes feedback that waits.
func (m *Machine) forget(f *feedback) {
	rest := m.held[f.key]
	for i := range rest {
		if rest[i] == f {
			rest = append(rest[:i], rest[i+1:]...)
			break
		}
	}
	if m.held[f.key] = rest; len(rest) == 0 {
		delete(m.held, f.key)
	}
	m.holding--
}

// queue is a heap of values by time.
type queue[T any] []timed[T]

type timed[T any] struct {
	time int64
	of   T
}

func (q *queue[T]) push(time int64, of T) {
	h := append(*q, timed[T]{time, of})
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].time <= h[i].time {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

func (q *queue[T]) pop() T {
	h := *q
	first, n := h[0].of, len(h)-1
	h[0], h[n] = h[n], timed[T]{}
	h = h[:n]
	for i := 0; ; {
		next := 2*i + 1
		if next >= n {
			break
		}
		if next+1 < n && h[next+1].time < h[next].time {
			next++
		}
		if h[i].time <= h[next].time {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	*q = h
	return first
}
