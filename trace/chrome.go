package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/wdlrun/wdlrun/internal/text/micros"
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

// First is the number of the first process, of rank 0, and of the first lane. Viewers take
// process 0 and thread 0 for the idle task of the operating system.
const First = 1

// The lanes (tid) of a rank's timeline. A merged timeline has the waiting in lane First + 2.
const (
	lanePhases     = First
	laneBuckets    = First + 1
	laneReader     = First + 3
	laneCheckpoint = First + 4
)

// header returns the header of a file that leaves out the first without spans of those that
// are kept.
func (r *Recorder) header(of Source, without int) Header {
	h := Header{Rank: of.Rank, Size: of.Size, Host: of.Host, UnixNs: r.origin.UnixNano(), Dropped: r.tape.lost + int64(without)}
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
// per span, times in microseconds. The process is First plus the rank. Threads hold the phases, the sums
// of buckets, the batches that the reader has read and the checkpoints that were written. The
// arguments of a span are its step, unless the previous phase has the same, and the bytes and
// rows of Count. The argument calls has the exchanges that the rank entered in the span:
// alternately a number and the time since the span's start. Call it from the goroutine that calls Enter.
func (r *Recorder) WriteChrome(w io.Writer, of Source) error {
	b := bufio.NewWriterSize(w, 1<<16)
	last := of.Last
	if last == 0 {
		last = r.tape.keep
	}
	first := r.tape.older(last)
	h, err := json.Marshal(r.header(of, first))
	if err != nil {
		return err
	}
	pid := First + of.Rank
	fmt.Fprintf(b, "[{\"name\":%q,\"ph\":\"M\",\"pid\":%d,\"args\":%s}", HeaderName, pid, h)
	fmt.Fprintf(b, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", pid, of.Rank)
	begins, known := int64(-1), int64(-1) // start of the first span, step of the phase before
	var line []byte
	err = r.tape.each(first, func(s *span, in []exchange) error {
		if begins < 0 {
			begins = s.start
		}
		if s.nth > 0 {
			line = s.appendEvent(line[:0], fmt.Sprintf("%v, bucket %d", s.phase, s.nth), pid, laneBuckets)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d,\"bytes\":%d}}", s.step, s.bytes)
		} else {
			line = s.appendEvent(line[:0], s.phase.String(), pid, lanePhases)
			line = s.appendArgs(line, s.step != known, in)
			known = s.step
		}
		_, err := b.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range r.others.since(begins) {
		if s.phase == Checkpoint {
			line = s.appendEvent(line[:0], "write", pid, laneCheckpoint)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d}}", s.step)
		} else {
			line = s.appendEvent(line[:0], "read", pid, laneReader)
			line = fmt.Appendf(line, ",\"args\":{\"step\":%d,\"batches\":%d}}", s.step, s.nth)
		}
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	fmt.Fprintln(b, "]")
	return b.Flush()
}

// appendEvent appends the event of a span, without its arguments.
func (s *span) appendEvent(line []byte, name string, pid, lane int) []byte {
	line = append(line, ",\n{\"name\":\""...)
	line = append(line, name...)
	line = append(line, "\",\"ph\":\"X\",\"ts\":"...)
	line = micros.Append(line, s.start)
	line = append(line, ",\"dur\":"...)
	line = micros.AppendLength(line, s.start, s.end)
	line = strconv.AppendInt(append(line, ",\"pid\":"...), int64(pid), 10)
	return strconv.AppendInt(append(line, ",\"tid\":"...), int64(lane), 10)
}

// appendArgs appends the arguments of a phase, in which exchanges were entered, and the end of
// its event.
func (s *span) appendArgs(line []byte, step bool, in []exchange) []byte {
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
	if line, in = s.appendCalls(line, sep, in); len(in) > 0 || sep == "," {
		line = append(line, '}')
	}
	return append(line, '}')
}

// appendCalls appends the exchanges entered in a span, after a separator, and returns them.
func (s *span) appendCalls(line []byte, sep string, in []exchange) ([]byte, []exchange) {
	for len(in) > 0 && in[0].at < s.start {
		in = in[1:] // its span was dropped
	}
	if len(in) == 0 {
		return line, in
	}
	line = append(append(line, sep...), "\"calls\":"...)
	sep = "["
	for _, x := range in {
		line = strconv.AppendUint(append(line, sep...), x.seq, 10)
		line = micros.AppendLength(append(line, ','), s.start, x.at)
		sep = ","
	}
	return append(line, ']'), in
}
