package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Source identifies the rank and the job of a timeline.
type Source struct {
	Rank, Size int
	Host       string // "": unknown
	Last       int    // number of latest spans to write; 0: all
}

// Header is the content of the first event of a timeline, named HeaderName. Times in the file
// are relative to the origin of its recorder.
type Header struct {
	Rank        int    `json:"rank"`
	Size        int    `json:"size"`
	Host        string `json:"host,omitempty"`
	Clock       string `json:"clock,omitempty"` // name of the monotonic clock: ranks with the same name share a clock; "": unknown
	MonotonicNs int64  `json:"monotonic_ns"`    // monotonic clock at the origin
	UnixNs      int64  `json:"unix_ns"`         // wall clock at the origin
	Dropped     int64  `json:"dropped_spans"`   // number of oldest spans that are missing
}

// HeaderName is the name of the event with the Header as its arguments.
const HeaderName = "wdlrun_rank"

// The lanes (tid) of a rank's timeline. A merged timeline has the waiting in lane 2.
const (
	lanePhases     = 0
	laneBuckets    = 1
	laneReader     = 3
	laneCheckpoint = 4
)

// header returns the header of a file that leaves out the first without spans of those that
// are kept.
func (r *Recorder) header(of Source, without int) Header {
	h := Header{Rank: of.Rank, Size: of.Size, Host: of.Host, UnixNs: r.origin.UnixNano(), Dropped: r.lost + int64(without)}
	if h.Clock = clockName(); h.Clock != "" {
		h.MonotonicNs = r.monotonicOrigin(monotonic)
	}
	return h
}

// monotonicOrigin returns the recorder's origin on the monotonic clock. It reads the two
// clocks several times and uses the closest pair, since the process may lose its core between
// two readings.
func (r *Recorder) monotonicOrigin(monotonic func() int64) (origin int64) {
	closest := time.Duration(math.MaxInt64)
	for range 16 {
		before := r.now()
		at := monotonic()
		if d := r.now().Sub(before); d < closest {
			closest, origin = d, at-before.Sub(r.origin).Nanoseconds()-d.Nanoseconds()/2
		}
	}
	return origin
}

// WriteChrome writes the kept spans as a Chrome trace: JSON array format, one complete event
// per span, times in microseconds. The process is the rank. Threads hold the phases, the sums
// of buckets, the batches that the reader has read and the checkpoints that were written. The
// arguments of a span are its step, unless the previous phase has the same, and the bytes and
// rows of Count. The argument calls has the exchanges that the rank entered in the span:
// alternately a number and the time since the span's start. Call it from the goroutine that calls Enter.
func (r *Recorder) WriteChrome(w io.Writer, of Source) error {
	b := bufio.NewWriterSize(w, 1<<16)
	first := 0
	if of.Last > 0 {
		first = max(0, len(r.spans)-of.Last)
	}
	h, err := json.Marshal(r.header(of, first))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "[{\"name\":%q,\"ph\":\"M\",\"pid\":%d,\"args\":%s}", HeaderName, of.Rank, h)
	fmt.Fprintf(b, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", of.Rank, of.Rank)
	e, known := 0, int64(-1) // step of the phase before
	var line []byte
	for i := first; i < len(r.spans); i++ {
		s := r.spans[(r.next+i)%len(r.spans)]
		if s.nth > 0 {
			line = s.appendEvent(line[:0], fmt.Sprintf("%v, bucket %d", s.phase, s.nth), of.Rank, laneBuckets)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d,\"bytes\":%d}}", s.step, s.bytes)
		} else {
			line = s.appendEvent(line[:0], s.phase.String(), of.Rank, lanePhases)
			line, e = r.appendArgs(line, s, s.step != known, e)
			known = s.step
		}
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	for _, s := range r.others.since(r.begins(first)) {
		if s.phase == Checkpoint {
			line = s.appendEvent(line[:0], "write", of.Rank, laneCheckpoint)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d}}", s.step)
		} else {
			line = s.appendEvent(line[:0], "read", of.Rank, laneReader)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d,\"batches\":%d}}", s.step, s.nth)
		}
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	fmt.Fprintln(b, "]")
	return b.Flush()
}

// begins returns the start of the i-th of the kept spans.
func (r *Recorder) begins(i int) int64 {
	if i == len(r.spans) {
		return 0
	}
	return r.spans[(r.next+i)%len(r.spans)].start
}

// appendEvent appends the event of a span, without its arguments.
func (s *span) appendEvent(line []byte, name string, pid, lane int) []byte {
	line = append(line, ",\n{\"name\":\""...)
	line = append(line, name...)
	line = append(line, "\",\"ph\":\"X\",\"ts\":"...)
	line = appendMicros(line, s.start)
	line = append(line, ",\"dur\":"...)
	line = appendMicros(line, s.end-s.start)
	line = strconv.AppendInt(append(line, ",\"pid\":"...), int64(pid), 10)
	return strconv.AppendInt(append(line, ",\"tid\":"...), int64(lane), 10)
}

// appendArgs appends the arguments of a phase and the end of its event. e is the index of the
// first exchange that may be in it. The result is that index for the next phase.
func (r *Recorder) appendArgs(line []byte, s span, step bool, e int) ([]byte, int) {
	sep := ",\"args\":{"
	number := func(name string, n int64) {
		line = append(append(append(append(line, sep...), '"'), name...), '"', ':')
		line, sep = strconv.AppendInt(line, n, 10), ","
	}
	if step {
		number("step", s.step)
	}
	if s.bytes > 0 {
		number("bytes", s.bytes)
	}
	if s.rows > 0 {
		number("rows", int64(s.rows))
	}
	line, sep, e = r.appendCalls(line, sep, s, e)
	if sep == "," {
		line = append(line, '}')
	}
	return append(line, '}'), e
}

// appendCalls appends the exchanges entered in a span, starting with the e-th, after a
// separator. It returns the separator of the next argument and the index of the next
// exchange.
func (r *Recorder) appendCalls(line []byte, sep string, s span, e int) ([]byte, string, int) {
	any := false
	for ; e < len(r.entries); e++ {
		x := r.entries[(r.oldest+e)%len(r.entries)]
		if x.at >= s.end {
			break
		}
		if x.at < s.start {
			continue // its span was dropped
		}
		if any {
			line = append(line, ',')
		} else {
			line, any, sep = append(append(line, sep...), "\"calls\":["...), true, ","
		}
		line = strconv.AppendUint(line, x.seq, 10)
		line = appendMicros(append(line, ','), x.at-s.start)
	}
	if any {
		line = append(line, ']')
	}
	return line, sep, e
}

// appendMicros appends nanoseconds as microseconds with one decimal; a negative time as 0.
func appendMicros(line []byte, ns int64) []byte {
	tenths := (max(ns, 0) + 50) / 100
	line = append(strconv.AppendInt(line, tenths/10, 10), '.')
	return append(line, '0'+byte(tenths%10))
}
