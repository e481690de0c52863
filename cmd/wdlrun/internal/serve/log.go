package serve

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/serve"
	"github.com/wdlrun/wdlrun/internal/serve/rescue"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// summaryEvery is the minimum time between two lines about updates of a model by a
// training, which may publish one every two seconds.
const summaryEvery = time.Minute

// versionLog prints one line for each version that becomes available. An update, a version
// that holds changes of another one only, is printed at once if no other was printed within
// summaryEvery; later updates are counted and summarised.
type versionLog struct {
	stdout, stderr io.Writer
	bf16           bool // opened models score in bfloat16

	mu     sync.Mutex
	update map[string]bool   // by folder of an opened version: it is an update
	error  map[string]string // by folder of an opened version: the error of bfloat16
	models map[string]*modelLog
}

// modelLog is the state of the log for one model.
type modelLog struct {
	latest  int64 // last version that became available
	printed int64 // value of latest in the last printed line
	updates int   // since the last printed line
	longest time.Duration
	timer   *time.Timer // nil if the next update is to be printed at once
}

func newVersionLog(stdout, stderr io.Writer) *versionLog {
	return &versionLog{stdout: stdout, stderr: stderr, update: map[string]bool{}, error: map[string]string{}, models: map[string]*modelLog{}}
}

// open opens a version, sharing what it can with the current one.
func (l *versionLog) open(dir string, before serve.Model, pause func()) (serve.Model, error) {
	var answers *export.Model
	if m, ok := before.(servedModel); ok {
		answers = m.Model
	}
	m, err := export.OpenAfter(dir, answers, pause)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update[dir] = m.Base() != m.Version()
	return servedModel{m, l}, nil
}

// rounds records the error of a version in bfloat16.
func (l *versionLog) rounds(dir string, records int, most float64) {
	text := "; bf16 changes the logits of the warm-up records by at most " + strconv.FormatFloat(most, 'g', 2, 64)
	if records == 0 {
		text = "; no warm-up records: the error of bf16 is not measured"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.error[dir] = text
}

// panicked prints the stack of a panic, which the server survives.
func (l *versionLog) panicked(p *rescue.Panic) {
	fmt.Fprintf(l.stderr, "wdlrun: serve: %v; the server continues; please report this stack, which is printed once:\n%s\n", p, p.Stack)
}

// broken prints that a version fails, or answers again.
func (l *versionLog) broken(model string, version int64, err error) {
	if err == nil {
		fmt.Fprintf(l.stderr, "wdlrun: serve: model %s: version %d answers again\n", model, version)
		return
	}
	fmt.Fprintf(l.stderr, "wdlrun: serve: model %s: version %d fails, so its requests end with INTERNAL: %v; publish it again, or an earlier one: wdlrun publish DIR -rollback VERSION\n", model, version, err)
}

// ignored prints the name of an input that a model does not have, which may be misspelt.
func (l *versionLog) ignored(model, input string) {
	fmt.Fprintf(l.stderr, "wdlrun: serve: model %s: requests have the input %q, which the model does not have; it is ignored, and counted in wdlrun_serve_ignored_inputs_total\n", model, command.Clean(input, maxInput))
}

// ignoredMember prints the name of a member of bodies without a meaning, which may be misspelt.
func (l *versionLog) ignoredMember(model, member string) {
	fmt.Fprintf(l.stderr, "wdlrun: serve: model %s: bodies of requests have the member %q, which has no meaning; it is ignored, and counted in wdlrun_serve_ignored_members_total\n", model, command.Clean(member, maxInput))
}

const maxInput = 100 // of the name of an input or a member, in a line

// changed prints an event of a version. Unloading a version that a later one has replaced
// prints nothing.
func (l *versionLog) changed(e versions.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.models[e.Model]
	if m == nil {
		m = &modelLog{}
		l.models[e.Model] = m
	}
	switch {
	case e.Number < 0:
		fmt.Fprintf(l.stderr, "wdlrun: %v\n", e.Err)
	case e.Err != nil:
		fmt.Fprintf(l.stderr, "wdlrun: serve: model %s: version %d: %v\n", e.Model, e.Number, e.Err)
	case e.State == versions.Available:
		l.available(m, e)
	case e.State == versions.Ended:
		delete(l.update, e.Dir)
		delete(l.error, e.Dir)
		if e.Number >= m.latest {
			l.summarise(e.Model, m)
			fmt.Fprintf(l.stdout, "serve: model %s: version %d is unloaded\n", e.Model, e.Number)
		}
	}
}

func (l *versionLog) available(m *modelLog, e versions.Event) {
	m.latest = e.Number
	if l.update[e.Dir] && m.timer != nil {
		m.updates++
		m.longest = max(m.longest, e.Took)
		return
	}
	if l.update[e.Dir] {
		m.timer = time.AfterFunc(summaryEvery, func() { l.due(e.Model, m) })
	}
	m.printed, m.updates, m.longest = e.Number, 0, 0
	fmt.Fprintf(l.stdout, "serve: model %s: version %d is available (%.2g s to open%s)\n", e.Model, e.Number, e.Took.Seconds(), l.error[e.Dir])
}

// due prints a summary after summaryEvery.
func (l *versionLog) due(model string, m *modelLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.updates == 0 {
		m.timer = nil
		return
	}
	l.summarise(model, m)
	m.timer.Reset(summaryEvery)
}

// summarise prints the counted updates.
func (l *versionLog) summarise(model string, m *modelLog) {
	if m.updates == 0 {
		return
	}
	fmt.Fprintf(l.stdout, "serve: model %s: version %d is available; updates since version %d: %d (at most %.2g s to open one)\n", model, m.latest, m.printed, m.updates, m.longest.Seconds())
	m.printed, m.updates, m.longest = m.latest, 0, 0
}

// servedModel is an open model for the server.
type servedModel struct {
	*export.Model
	log *versionLog
}

func (m servedModel) NewScorer() (serve.Scorer, error) {
	if m.log.bf16 {
		return m.Model.NewScorerBF16()
	}
	return m.Model.NewScorer()
}

// Exact returns a scorer in float32 if the others compute in bfloat16.
func (m servedModel) Exact() (serve.Scorer, error) {
	if !m.log.bf16 {
		return nil, nil
	}
	return m.Model.NewScorer()
}

// Differs records the error of bfloat16.
func (m servedModel) Differs(records int, most float64) { m.log.rounds(m.Dir(), records, most) }
