package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/wdlrun/wdlrun/internal/text/micros"
	"github.com/wdlrun/wdlrun/trace"
)

// maxMerged bounds the events of a merged trace.
const maxMerged = 1 << 24

// Merge writes one Chrome trace of all ranks, packed with gzip: a process for each rank,
// with lanes for phases, buckets, waiting, the reader and checkpoints. An arrow leads from the last rank to enter an exchange to those that it delayed by at least
// DelayShare of their step. Times are relative to the first span. It returns how many
// events were left out, from the earliest steps.
func (t *Timeline) Merge(w io.Writer) (cut int, err error) {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return 0, err
	}
	m := &merger{Timeline: t, w: bufio.NewWriterSize(z, 1<<16), origin: t.Ranks[0].Spans[0].Start, buckets: map[string][]byte{}}
	for p := range m.phases {
		m.phases[p] = strconv.AppendQuote(nil, trace.Phase(p).String())
	}
	total := 0
	for _, r := range t.Ranks {
		m.origin = min(m.origin, r.Spans[0].Start)
		total += len(r.Spans) + len(r.Background)
	}
	m.skip = max(0, total-maxMerged) / len(t.Ranks)
	if _, err := m.w.WriteString("[{\"name\":\"wdlrun_merged\",\"ph\":\"M\",\"pid\":1,\"args\":{}}"); err != nil {
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
	phases  [trace.Phases][]byte
	name    []byte // buffer
	line    []byte // buffer
}

// begin starts the line of an event that has a duration. name is JSON.
func (m *merger) begin(name []byte, start, end int64, rank, lane int) {
	m.line = append(append(append(m.line[:0], ",\n{\"name\":"...), name...), `,"ph":"X"`...)
	m.place(start, rank, lane)
	m.line = micros.AppendLength(append(m.line, `,"dur":`...), start-m.origin, end-m.origin)
}

// place appends the time and the lane of an event.
func (m *merger) place(at int64, rank, lane int) {
	m.line = micros.Append(append(m.line, `,"ts":`...), at-m.origin)
	m.number(`,"pid":`, int64(trace.First+rank))
	m.number(`,"tid":`, int64(trace.First+lane))
}

// number appends a field.
func (m *merger) number(before string, x int64) {
	m.line = strconv.AppendInt(append(m.line, before...), x, 10)
}

// finish ends the event and its arguments, and writes it.
func (m *merger) finish() error {
	_, err := m.w.Write(append(m.line, '}', '}'))
	return err
}

func (m *merger) rank(r *Rank) error {
	name, err := json.Marshal(fmt.Sprintf("rank %d%s", r.Rank, on(r.Host)))
	if err != nil {
		return err
	}
	fmt.Fprintf(m.w, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":%s}}", trace.First+r.Rank, name)
	fmt.Fprintf(m.w, ",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", trace.First+r.Rank, r.Rank)
	for lane, name := range lanes {
		fmt.Fprintf(m.w, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":%q}}", trace.First+r.Rank, trace.First+lane, name)
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
		m.begin(name, s.Start, s.End, r.Rank, s.Lane)
		m.number(`,"args":{"step":`, s.Step)
		if s.Batches > 0 {
			m.number(`,"batches":`, s.Batches)
		}
		if s.Bytes > 0 {
			m.number(`,"bytes":`, s.Bytes)
		}
		if err := m.finish(); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) span(rank int, s *Span) error {
	m.begin(m.phases[s.Phase], s.Start, s.End, rank, lanePhases)
	m.number(`,"args":{"step":`, s.Step)
	if s.Bytes > 0 {
		m.number(`,"bytes":`, s.Bytes)
	}
	if s.Rows > 0 {
		m.number(`,"rows":`, s.Rows)
	}
	return m.finish()
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
	m.name = append(append(append(m.name[:0], '"'), x.of[r].phase.String()...), ": for rank "...)
	m.name = append(strconv.AppendInt(m.name, int64(last), 10), '"')
	m.begin(m.name, at, at+waited, m.Ranks[r].Rank, laneWaits)
	m.number(`,"args":{"step":`, x.step.number)
	m.number(`,"for":`, int64(last))
	if err := m.finish(); err != nil || !arrow {
		return err
	}
	m.arrows++
	m.line = m.line[:0]
	m.number(",\n{\"name\":\"late\",\"cat\":\"late\",\"ph\":\"s\",\"id\":", int64(m.arrows))
	m.place(x.enters, last, lanePhases)
	m.number("},\n{\"name\":\"late\",\"cat\":\"late\",\"ph\":\"f\",\"bp\":\"e\",\"id\":", int64(m.arrows))
	m.place(at+waited, m.Ranks[r].Rank, laneWaits)
	_, err := m.w.Write(append(m.line, '}'))
	return err
}
