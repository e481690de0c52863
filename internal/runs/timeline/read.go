package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/trace"
)

// Pattern matches the names of the trace files of a run directory.
const Pattern = "trace-[0-9]*.json"

// Limits of the files.
const (
	maxFiles = 1 << 12
	maxFile  = 1 << 30 // bytes
	maxSpans = 1 << 22 // per rank
	maxCalls = 1 << 10 // per span
	allCalls = 1 << 25 // per rank
	maxRank  = 1 << 16
	maxName  = 256
)

// Rank is the timeline of one rank.
type Rank struct {
	trace.Header
	File       string
	Spans      []Span // by start
	Background []Background
	Fault      string // why the rest of the file was not read, or ""
	Error      int64  // ns: largest difference of its times from the reference clock

	calls []call
}

// Span is one period in a phase. Times are in ns, on the clock of the file until Align.
type Span struct {
	Start, End int64
	Step       int64
	Phase      trace.Phase
	from, to   int32 // range in Rank.calls
	Bytes      int64 // sent by the rank; in sync summed over the ranks
	Rows       int64 // of tables, requested by the rank
}

// Background is a span of work concurrent with the phases.
type Background struct {
	Start, End, Step int64
	Lane             int
	Batches          int64 // of the reader
	Bytes            int64 // summed over the ranks
	Name             string
}

// call is the entry into an exchange.
type call struct {
	at  int64
	seq uint64
}

// event is one event of a trace file.
type event struct {
	Name string  `json:"name"`
	Ph   string  `json:"ph"`
	Ts   float64 `json:"ts"`
	Dur  float64 `json:"dur"`
	Pid  int     `json:"pid"`
	Tid  int     `json:"tid"`
	Args args    `json:"args"`
}

// args holds the arguments of the events that are read: of spans, and of the header.
type args struct {
	Step  int64     `json:"step"`
	Bytes int64     `json:"bytes"`
	Rows  int64     `json:"rows"`
	Read  int64     `json:"batches"`
	Calls []float64 `json:"calls"`
	trace.Header
}

// Read reads the trace files of a run directory, by rank. faults has one line for each file
// that cannot be used.
func Read(dir string) (ranks []*Rank, faults []string, err error) {
	paths, err := filepath.Glob(filepath.Join(escaped(dir), Pattern))
	if err == nil && len(paths) == 0 {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w", err)
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("%s has no trace-*.json: ranks write them when the training ends; give the run directory of a training that has ended", dir)
	}
	if len(paths) > maxFiles {
		return nil, nil, fmt.Errorf("%s has %d trace files, at most %d are read", dir, len(paths), maxFiles)
	}
	all, errs := readAll(paths)
	seen := map[int]bool{}
	for i, r := range all {
		switch {
		case errs[i] != nil:
			faults = append(faults, fmt.Sprintf("%s is not used: %v", filepath.Base(paths[i]), errs[i]))
		case seen[r.Rank]:
			faults = append(faults, fmt.Sprintf("%s is not used: it is a second file of rank %d", filepath.Base(paths[i]), r.Rank))
		default:
			seen[r.Rank], ranks = true, append(ranks, r)
			if r.Fault != "" {
				faults = append(faults, fmt.Sprintf("%s: %s; the %d spans before are used", r.File, r.Fault, len(r.Spans)))
			}
		}
	}
	slices.SortFunc(ranks, func(a, b *Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	ranks, more := sameJob(ranks)
	if faults = append(faults, more...); len(ranks) == 0 {
		return nil, nil, fmt.Errorf("no trace file of %s can be used: %s", dir, strings.Join(faults, "; "))
	}
	return ranks, faults, nil
}

// readAll reads files on all cores.
func readAll(paths []string) ([]*Rank, []error) {
	all, errs := make([]*Rank, len(paths)), make([]error, len(paths))
	next := make(chan int, len(paths))
	for i := range paths {
		next <- i
	}
	close(next)
	var running sync.WaitGroup
	for range min(len(paths), 4) {
		running.Go(func() {
			for i := range next {
				all[i], errs[i] = readFile(paths[i])
			}
		})
	}
	running.Wait()
	return all, errs
}

// sameJob omits the files of an earlier job with more ranks, which a later job with fewer
// ranks has not overwritten.
func sameJob(ranks []*Rank) (same []*Rank, faults []string) {
	size := 0
	for _, r := range ranks {
		if r.Rank == 0 {
			size = r.Size
		}
	}
	for _, r := range ranks {
		if size > 0 && (r.Rank >= size || r.Size != size) {
			faults = append(faults, fmt.Sprintf("%s is not used: it is of a job on %d ranks, the others are of one on %d", r.File, r.Size, size))
			continue
		}
		same = append(same, r)
	}
	return same, faults
}

// escaped returns dir with the characters of patterns escaped.
func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func readFile(path string) (*Rank, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxFile)
	}
	r, err := parse(bufio.NewReaderSize(io.LimitReader(f, maxFile), 1<<16))
	if r != nil {
		r.File = filepath.Base(path)
	}
	return r, err
}

// parse reads one file. It returns an error if the file is no trace of a rank. An error
// after the first span is recorded in the Rank.
func parse(from io.Reader) (*Rank, error) {
	d := json.NewDecoder(from)
	r, p := &Rank{}, parser{phases: phaseNames()}
	r.Rank = -1
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errors.New("it does not begin with a list of trace events")
	}
	e := event{}
	for d.More() {
		e = event{Args: args{Step: p.step, Calls: e.Args.Calls[:0]}}
		err := d.Decode(&e)
		if err == nil {
			err = p.add(r, &e)
		}
		if err != nil {
			r.Fault = fmt.Sprintf("byte %d: %v", d.InputOffset(), describe(err))
			break
		}
	}
	if _, err := d.Token(); err != nil && r.Fault == "" {
		r.Fault = fmt.Sprintf("byte %d: the file is cut off", d.InputOffset())
	}
	if r.Rank < 0 || len(r.Spans) == 0 {
		if r.Fault != "" {
			return nil, errors.New(r.Fault)
		}
		return nil, errors.New("it has no spans of phases")
	}
	p.finish(r)
	return r, nil
}

// describe returns a readable message for a JSON error.
func describe(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the file is cut off")
	}
	return err
}

// parser is the state of reading a file.
type parser struct {
	phases map[string]trace.Phase
	step   int64 // of the last phase: the step of spans that have none
	first  int   // number of the process of rank 0 and of the first lane: 0 in files of earlier versions
}

func phaseNames() map[string]trace.Phase {
	all := map[string]trace.Phase{}
	for p := range trace.Phase(trace.Phases) {
		all[p.String()] = p
	}
	return all
}

// add adds one event. Unknown kinds of events are skipped.
func (p *parser) add(r *Rank, e *event) error {
	if e.Pid < 0 || e.Pid > maxRank || len(e.Name) > maxName {
		return fmt.Errorf("event %.32q of process %d is not one of a rank", e.Name, e.Pid)
	}
	if e.Ph == "M" && e.Name == trace.HeaderName {
		return p.header(r, e)
	}
	if e.Ph != "X" {
		return nil
	}
	rank, lane := e.Pid-p.first, e.Tid-p.first
	if r.Rank < 0 {
		r.Rank = rank
	}
	if rank != r.Rank {
		return fmt.Errorf("a span of rank %d is in the file of rank %d", rank, r.Rank)
	}
	const most = 1e15 // µs: 30 years
	if !(e.Ts > -most && e.Ts < most && e.Dur >= 0 && e.Dur < most) {
		return fmt.Errorf("span %q from %v for %v µs", e.Name, e.Ts, e.Dur)
	}
	start, end := ns(e.Ts), ns(e.Ts+e.Dur)
	if len(r.Spans)+len(r.Background) >= maxSpans {
		return fmt.Errorf("there are more than %d spans", maxSpans)
	}
	if lane != lanePhases {
		if lane < 0 || lane >= len(lanes) || lane == laneWaits {
			return fmt.Errorf("event %.32q of lane %d is not one of a rank", e.Name, e.Tid)
		}
		r.Background = append(r.Background, Background{start, end, e.Args.Step, lane, max(e.Args.Read, 0), max(e.Args.Bytes, 0), e.Name})
		return nil
	}
	phase, known := p.phases[e.Name]
	if !known {
		return fmt.Errorf("span %q is not a phase of this version", e.Name)
	}
	p.step = e.Args.Step
	return span(r, Span{Start: start, End: end, Step: e.Args.Step, Phase: phase, Bytes: max(e.Args.Bytes, 0), Rows: max(e.Args.Rows, 0)}, e.Args.Calls)
}

// span adds a span with its calls, which alternate between number and µs since the start of
// the span.
func span(r *Rank, s Span, calls []float64) error {
	if s.Step < 0 || len(calls)%2 != 0 || len(calls) > 2*maxCalls || len(r.calls) > allCalls {
		return fmt.Errorf("a span of step %d with %d numbers as calls", s.Step, len(calls))
	}
	s.from = int32(len(r.calls))
	for i := 0; i < len(calls); i += 2 {
		seq, at := calls[i], calls[i+1]
		if !(seq >= 0 && seq < 1<<53 && seq == math.Trunc(seq)) || !(at >= 0) || s.Start+ns(at) > s.End+rounding {
			return fmt.Errorf("a span of step %d with call %v at %v µs", s.Step, seq, at)
		}
		r.calls = append(r.calls, call{min(s.Start+ns(at), s.End), uint64(seq)})
	}
	s.to = int32(len(r.calls))
	r.Spans = append(r.Spans, s)
	return nil
}

// rounding is the largest difference between two times of a file that were equal.
const rounding = 200

func (p *parser) header(r *Rank, e *event) error {
	h := e.Args.Header
	const most = math.MaxInt64 / 4
	p.first = e.Pid - h.Rank
	if p.first != 0 && p.first != trace.First || h.Rank < 0 || h.Size <= h.Rank || h.Size > maxRank || len(h.Host) > maxName || len(h.Clock) > maxName || h.MonotonicNs < -most || h.MonotonicNs > most {
		return fmt.Errorf("header of rank %d of %d in process %d", h.Rank, h.Size, e.Pid)
	}
	if r.Rank >= 0 {
		return fmt.Errorf("the header of rank %d is not the first event", h.Rank)
	}
	r.Header = h
	return nil
}

// finish sorts the spans. A span that was in progress when the file was written may come
// after later ones.
func (p *parser) finish(r *Rank) {
	slices.SortStableFunc(r.Spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(r.Spans); i++ { // the file may be malformed
		s, before := &r.Spans[i], &r.Spans[i-1]
		before.End = min(before.End, max(s.Start, before.Start))
	}
}

func ns(micros float64) int64 { return int64(math.Round(micros * 1e3)) }

func on(host string) string {
	if host == "" {
		return ""
	}
	return " on host " + host
}

// The lanes of a merged trace, counted from trace.First. Files have no lane of waiting.
const (
	lanePhases = 0
	laneWaits  = 2
)

// lanes names the lanes.
var lanes = [...]string{"phases", "buckets", "waiting", "reader", "checkpoint"}
