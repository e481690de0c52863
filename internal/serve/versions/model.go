package versions

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/serve/rescue"
)

// maxEnded is the maximum number of ended versions in a status.
const maxEnded = 16

// model is the state of one model. Its goroutine runs keep.
type model[M io.Closer] struct {
	name string
	of   *Registry[M]
	view atomic.Pointer[view[M]]
	kick chan struct{} // signals a changed configuration
	stop chan struct{}
	done chan struct{}

	mu       sync.Mutex
	config   Config
	base     string  // fault of the base folder, which has been reported
	numbers  []int64 // versions of the base folder, at the last look that has found some
	status   map[int64]Status
	rounds   int           // completed rounds
	round    chan struct{} // closed when the next round is complete
	newest   int           // number of the latest configuration
	finished int           // latest configuration that a complete round has used
	hidden   bool          // Replace has not made the model visible yet
	pending  []Event       // of a hidden model

	// Used only by keep.
	from   *model[M] // the model that this one replaces, during the first round
	loaded map[int64]*Version[M]
	failed map[int64]failure
	listed *listing
	pins   map[string]int64 // labels of the base folder
	extra  map[int64]bool   // versions that are open only because of a pin
}

// failure is the error of a version that could not be opened, and the state of its files.
type failure struct {
	dir, look string
	err       error
}

func newModel[M io.Closer](r *Registry[M], c Config) *model[M] {
	m := &model[M]{
		name: c.Name, of: r, config: c,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), round: make(chan struct{}),
		status: map[int64]Status{}, loaded: map[int64]*Version[M]{}, failed: map[int64]failure{},
	}
	m.view.Store(&view[M]{})
	return m
}

// poll polls until stop is closed.
func (m *model[M]) poll(poll time.Duration) {
	defer close(m.done)
	for {
		m.mu.Lock()
		c, number := m.config, m.newest
		m.mu.Unlock()
		m.reportBase(c.Base, rescue.Call(func() error { return m.reconcile(c) }))
		m.from = nil
		m.mu.Lock()
		m.rounds++
		m.finished = number
		close(m.round)
		m.round = make(chan struct{})
		m.mu.Unlock()
		var timer <-chan time.Time
		if poll > 0 {
			timer = time.After(poll)
		}
		select {
		case <-timer:
		case <-m.kick:
		case <-m.stop:
			m.retire(nil)
			return
		}
	}
}

// isDone reports whether the goroutine of a removed model has ended.
func (m *model[M]) isDone() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// reconcile opens the versions chosen by the policy and retires the others. Its error is about
// the base folder.
func (m *model[M]) reconcile(c Config) error {
	found, err := find(c.Base, m.listed)
	m.listed = found
	if err == nil {
		err = m.readPins(c.Base)
	}
	if found != nil && len(found.numbers) > 0 {
		m.mu.Lock()
		m.numbers = found.numbers
		m.mu.Unlock()
		m.forget(found)
		wanted := m.open(&c, found)
		if len(wanted) > 0 {
			m.retire(wanted)
		}
	}
	m.publish(&c)
	if err == nil {
		err = m.named(&c, found)
	}
	return err
}

// named returns an error if the policy names a version that the base folder does not have.
func (m *model[M]) named(c *Config, found *listing) error {
	for _, n := range c.Policy.Specific {
		if len(found.numbers) > 0 && found.dir(n) == "" && m.loaded[n] == nil {
			return fmt.Errorf("version %d, which the version policy names, is not there", n)
		}
	}
	return nil
}

// readPins reads the labels of the base folder. Its error names the entries that are not used.
func (m *model[M]) readPins(base string) error {
	pins, faults, err := ledger.ReadPins(base)
	if err != nil {
		return fmt.Errorf("the labels of pins stay as they were: %w", err)
	}
	if m.pins = pins; len(faults) > 0 {
		return fmt.Errorf("labels that are not used: %s", strings.Join(faults, "; "))
	}
	return nil
}

// reportBase reports a base folder that cannot be read, once.
func (m *model[M]) reportBase(base string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	m.mu.Lock()
	before := m.base
	m.base = text
	m.mu.Unlock()
	if text != before && err != nil {
		m.reportEvent(Event{Model: m.name, Status: Status{Number: -1, Err: fmt.Errorf("serve: model %s: base path %s: %w", m.name, base, err)}, Dir: base})
	}
}

// forget drops the failures of versions whose files have changed.
func (m *model[M]) forget(found *listing) {
	for n, f := range m.failed {
		if found.dir(n) != f.dir || fingerprint(f.dir) != f.look {
			delete(m.failed, n)
		}
	}
}

// open opens the versions chosen by the policy and the pinned ones, the newest first, and returns
// their numbers. Instead of those that fail, the policy chooses others.
func (m *model[M]) open(c *Config, found *listing) []int64 {
	for {
		usable := found.numbers
		if len(m.failed) > 0 { // a poll of a large folder is cheap
			usable = slices.DeleteFunc(slices.Clone(usable), func(n int64) bool { _, bad := m.failed[n]; return bad })
		}
		usable = m.withRemoved(usable, found)
		wanted, failed := m.withPinned(c.Policy.choose(usable), usable), false
		for _, n := range slices.Backward(wanted) {
			if v := m.loaded[n]; v != nil && (v.dir == found.dir(n) || found.dir(n) == "") {
				continue
			}
			select {
			case <-m.stop:
				return nil
			default:
			}
			failed = !m.load(c, n, found.dir(n)) || failed
		}
		if !failed {
			return wanted
		}
	}
}

// withRemoved adds the latest version, if its folder was removed and a newer version cannot be used. No
// older version takes its place: a training that publishes bad versions also removes old ones.
func (m *model[M]) withRemoved(usable []int64, found *listing) []int64 {
	v := m.view.Load().latest
	if v == nil || found.dir(v.Number) != "" || filepath.Dir(v.dir) != filepath.Clean(found.base) {
		return usable
	}
	for n := range m.failed {
		if n > v.Number {
			at, _ := slices.BinarySearch(usable, v.Number)
			return slices.Insert(usable, at, v.Number)
		}
	}
	return usable
}

// withPinned adds the usable pinned versions to those that the policy has chosen.
func (m *model[M]) withPinned(chosen, usable []int64) []int64 {
	all := slices.Clone(chosen)
	m.extra = map[int64]bool{}
	for _, n := range m.pins {
		if slices.Contains(usable, n) && !slices.Contains(all, n) {
			all, m.extra[n] = append(all, n), true
		}
	}
	slices.Sort(all)
	return all
}

// load opens one version. It returns false if it cannot be opened.
func (m *model[M]) load(c *Config, n int64, dir string) bool {
	if m.adopt(c, n, dir) {
		return true
	}
	looked := fingerprint(dir)
	m.setStatus(Status{Number: n, State: Loading}, dir, 0)
	start := time.Now()
	var before M
	current, done := m.current()
	defer done()
	if current != nil {
		before = current.Model
	}
	var opened M
	err := rescue.Call(func() (err error) {
		opened, err = m.of.open(m.name, n, dir, before)
		return err
	})
	if err != nil {
		m.failed[n] = failure{dir, looked, err}
		m.setStatus(Status{n, Ended, err}, dir, 0)
		return false
	}
	v := &Version[M]{Number: n, Model: opened, Since: time.Now(), dir: dir}
	v.refs.Store(1)
	v.gone = func() {
		m.ended(v, rescue.Call(v.Model.Close))
	}
	old := m.loaded[n]
	m.loaded[n] = v
	m.publish(c)
	m.setStatus(Status{Number: n, State: Available}, dir, time.Since(start))
	if old != nil { // the same number in another base folder
		m.of.closing.Add(1)
		old.Release()
	}
	return true
}

// retire closes all versions except the wanted ones, each when its last request has ended.
func (m *model[M]) retire(wanted []int64) {
	var old []*Version[M]
	for n, v := range m.loaded {
		if !slices.Contains(wanted, n) {
			delete(m.loaded, n)
			old = append(old, v)
		}
	}
	if len(old) == 0 {
		return
	}
	m.mu.Lock()
	c := m.config
	m.mu.Unlock()
	m.publish(&c)
	for _, v := range old {
		m.setStatus(Status{Number: v.Number, State: Unloading}, v.dir, 0)
		m.of.closing.Add(1)
		v.Release()
	}
}

// ended records that a version was closed.
func (m *model[M]) ended(v *Version[M], err error) {
	defer m.of.closing.Done()
	m.mu.Lock()
	current := m.status[v.Number].State == Unloading
	m.mu.Unlock()
	if current {
		m.setStatus(Status{v.Number, Ended, err}, v.dir, 0)
	}
}

// publish makes the loaded versions visible to requests. A request that names no version gets the
// latest of those that the policy has chosen. Labels of the configuration precede pins.
func (m *model[M]) publish(c *Config) {
	next := &view[M]{versions: maps.Clone(m.loaded), labels: maps.Clone(m.pins)}
	if next.labels == nil {
		next.labels = map[string]int64{}
	}
	maps.Copy(next.labels, c.Labels)
	for _, v := range m.loaded {
		if m.extra[v.Number] {
			continue
		}
		if next.latest == nil || v.Number > next.latest.Number {
			next.latest = v
		}
	}
	m.view.Store(next)
}

// setStatus changes the status of a version and reports it.
func (m *model[M]) setStatus(s Status, dir string, took time.Duration) {
	m.mu.Lock()
	m.status[s.Number] = s
	var ended []int64
	for n, x := range m.status {
		if x.State == Ended {
			ended = append(ended, n)
		}
	}
	if len(ended) > maxEnded {
		delete(m.status, slices.Min(ended))
	}
	m.mu.Unlock()
	m.reportEvent(Event{m.name, s, dir, took})
}

// reportEvent reports an event, of a hidden model once it is visible.
func (m *model[M]) reportEvent(e Event) {
	m.mu.Lock()
	hidden := m.hidden
	if hidden {
		m.pending = append(m.pending, e)
	}
	m.mu.Unlock()
	if !hidden {
		m.of.report(e)
	}
}

// reportPending reports what has happened while the model was hidden.
func (m *model[M]) reportPending() {
	for {
		m.mu.Lock()
		events := m.pending
		m.pending, m.hidden = nil, len(events) > 0
		m.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			m.of.report(e)
		}
	}
}

// statuses returns the status of each version, the newest first.
func (m *model[M]) statuses() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.status), func(a, b Status) int {
		if a.Number > b.Number {
			return -1
		}
		return 1
	})
}

// lack returns why no version is available or, with each, why not each version that the policy names is; nil otherwise.
func (m *model[M]) lack(each bool) error {
	open := m.view.Load()
	if open.latest != nil && !each {
		return nil
	}
	m.mu.Lock()
	c, numbers, status := m.config, m.numbers, maps.Clone(m.status)
	m.mu.Unlock()
	for _, n := range c.Policy.Specific {
		if open.versions[n] != nil {
			continue
		}
		if err := status[n].Err; err != nil {
			return fmt.Errorf("serve: model %s: version %d: %w", m.name, n, err)
		}
		if _, there := slices.BinarySearch(numbers, n); !there && len(numbers) > 0 {
			return fmt.Errorf("serve: model %s: base path %s: version %d is not there; %s", m.name, c.Base, n, listed(numbers))
		}
	}
	if open.latest != nil {
		return nil
	}
	return m.fault()
}

// listed names the newest of some versions.
func listed(numbers []int64) string {
	const most = 10
	newest := make([]string, 0, most)
	for _, n := range slices.Backward(numbers[max(0, len(numbers)-most):]) {
		newest = append(newest, strconv.FormatInt(n, 10))
	}
	text := "there are " + strings.Join(newest, ", ")
	if more := len(numbers) - most; more > 0 {
		text += fmt.Sprintf(" and %d older ones", more)
	}
	return text
}

// fault returns why no version is available.
func (m *model[M]) fault() error {
	for _, s := range m.statuses() {
		if s.Err != nil {
			return fmt.Errorf("serve: model %s: version %d: %w", m.name, s.Number, s.Err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base != "" {
		return fmt.Errorf("serve: model %s: no version is available: base path %s: %s", m.name, m.config.Base, m.base)
	}
	return fmt.Errorf("serve: model %s: no version is available in the base path %s", m.name, m.config.Base)
}
