package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// The lanes of a merged trace. Files have no lane of waiting.
const (
	lanePhases = 0
	laneWaits  = 2
)

// lanes names the lanes.
var lanes = [...]string{"phases", "buckets", "waiting", "reader", "checkpoint"}

// maxMerged bounds the events of a merged trace.
const maxMerged = 1 << 24

// Merge writes one Chrome trace of all ranks, packed with gzip: a process for each rank,
// with lanes for phases, buckets, waiting, the reader and checkpoints. An arrow leads from the last rank to enter an exchange to those that it delayed by at least
// DelayShare of their step. Times are relative to the first span. It returns how many
// events were left out, those of the earliest steps.
func (t *Timeline) Merge(w io.Writer) (cut int, err error) {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return 0, err
	}
	m := &merger{Timeline: t, w: bufio.NewWriterSize(z, 1<<16), origin: t.Ranks[0].Spans[0].Start, buckets: map[string][]byte{}}
	total := 0
	for _, r := range t.Ranks {
		m.origin = min(m.origin, r.Spans[0].Start)
		total += len(r.Spans) + len(r.Background)
	}
	m.skip = max(0, total-maxMerged) / len(t.Ranks)
	if _, err := m.w.WriteString("[{\"name\":\"wdlrun_merged\",\"ph\":\"M\",\"pid\":0,\"args\":{}}"); err != nil {
		return 0, err
	}
	for _, r := range t.Ranks {
		if err := m.rank(r); err != nil {
			return 0, err
		}
	}
	if err := m.waits(); err != nil {
		return 0, err
	}
	if _, err := m.w.WriteString("]\n"); err != nil {
		return 0, err
	}
	if err := m.w.Flush(); err != nil {
		return 0, err
	}
	return m.cut, z.Close()
}

// merger is the state of Merge.
type merger struct {
	*Timeline
	w       *bufio.Writer
	origin  int64
	skip    int // spans of each rank to omit
	cut     int
	arrows  int
	buckets map[string][]byte // names as JSON
	line    []byte
}

// micros converts a time to microseconds of the merged trace.
func (m *merger) micros(at int64) float64 { return float64(at-m.origin) / 1e3 }

func (m *merger) rank(r *Rank) error {
	name, err := json.Marshal(fmt.Sprintf("rank %d%s", r.Rank, on(r.Host)))
	if err != nil {
		return err
	}
	fmt.Fprintf(m.w, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":%s}}", r.Rank, name)
	fmt.Fprintf(m.w, ",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", r.Rank, r.Rank)
	for lane, name := range lanes {
		fmt.Fprintf(m.w, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":%q}}", r.Rank, lane, name)
	}
	from := min(m.skip, len(r.Spans)-1)
	m.cut += from
	for _, s := range r.Spans[from:] {
		if err := m.span(r.Rank, &s); err != nil {
			return err
		}
	}
	for _, s := range r.Background {
		if s.Start < r.Spans[from].Start {
			m.cut++
			continue
		}
		name, known := m.buckets[s.Name]
		if !known {
			if name, err = json.Marshal(s.Name); err != nil {
				return err
			}
			m.buckets[s.Name] = name
		}
		args := fmt.Sprintf("\"step\":%d", s.Step)
		if s.Batches > 0 {
			args += fmt.Sprintf(",\"batches\":%d", s.Batches)
		}
		if err := m.event(r.Rank, s.Lane, name, s.Start, s.End, args); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) span(rank int, s *Span) error {
	m.line = fmt.Appendf(m.line[:0], ",\n{\"name\":\"%v\",\"ph\":\"X\",\"ts\":%.1f,\"dur\":%.1f,\"pid\":%d,\"tid\":%d,\"args\":{\"step\":%d",
		s.Phase, m.micros(s.Start), float64(s.End-s.Start)/1e3, rank, lanePhases, s.Step)
	if s.Bytes > 0 {
		m.line = fmt.Appendf(m.line, ",\"bytes\":%d", s.Bytes)
	}
	if s.Rows > 0 {
		m.line = fmt.Appendf(m.line, ",\"rows\":%d", s.Rows)
	}
	_, err := m.w.Write(append(m.line, '}', '}'))
	return err
}

func (m *merger) event(rank, lane int, name []byte, start, end int64, args string) error {
	m.line = fmt.Appendf(m.line[:0], ",\n{\"name\":%s,\"ph\":\"X\",\"ts\":%.1f,\"dur\":%.1f,\"pid\":%d,\"tid\":%d,\"args\":{%s}}",
		name, m.micros(start), float64(end-start)/1e3, rank, lane, args)
	_, err := m.w.Write(m.line)
	return err
}

// waits writes the waiting lane and the arrows.
func (m *merger) waits() (err error) {
	skipped := make([]int64, len(m.Ranks))
	for i, r := range m.Ranks {
		skipped[i] = r.Spans[min(m.skip, len(r.Spans)-1)].Start
	}
	m.each(func(x *exchange) {
		if err != nil || x.enters < skipped[0] {
			return
		}
		spans := m.Ranks[0].Spans[x.step.at[0].lo:x.step.at[0].hi]
		least := int64(DelayShare * float64(spans[len(spans)-1].End-spans[0].Start))
		for r := range x.of {
			if w := x.waited(r); r != x.last && w > rounding && err == nil {
				err = m.wait(x, r, w, w >= least)
			}
		}
	})
	return err
}

// wait writes that a rank waited for the last one, and an arrow if arrow is set.
func (m *merger) wait(x *exchange, r int, waited int64, arrow bool) error {
	last, at := m.Ranks[x.last].Rank, x.of[r].at
	name := fmt.Appendf(nil, "\"%v: for rank %d\"", x.of[r].phase, last)
	args := fmt.Sprintf("\"step\":%d,\"for\":%d", x.step.number, last)
	if err := m.event(m.Ranks[r].Rank, laneWaits, name, at, at+waited, args); err != nil || !arrow {
		return err
	}
	m.arrows++
	_, err := fmt.Fprintf(m.w, ",\n{\"name\":\"late\",\"cat\":\"late\",\"ph\":\"s\",\"id\":%d,\"ts\":%.1f,\"pid\":%d,\"tid\":%d}"+
		",\n{\"name\":\"late\",\"cat\":\"late\",\"ph\":\"f\",\"bp\":\"e\",\"id\":%d,\"ts\":%.1f,\"pid\":%d,\"tid\":%d}",
		m.arrows, m.micros(x.enters), last, lanePhases, m.arrows, m.micros(at+waited), m.Ranks[r].Rank, laneWaits)
	return err
}
