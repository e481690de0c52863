package versions

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Registry.
type Options[M io.Closer] struct {
	// Open opens a version of a model. One goroutine per model calls it. before is the
	// latest open version, whose data it may share; the zero M if there is none.
	Open func(model string, version int64, dir string, before M) (M, error)
	// Poll is the interval at which base folders are read; 0: only after each Set.
	Poll time.Duration
	// Report, if not nil, is called with every change. It must not call the Registry.
	Report func(Event)
}

// Registry holds the versions of models. Its methods are safe for concurrent use.
type Registry[M io.Closer] struct {
	open   func(model string, version int64, dir string, before M) (M, error)
	poll   time.Duration
	report func(Event)
	models atomic.Pointer[map[string]*model[M]]

	turn   chan struct{} // one Set or Replace at a time
	ending chan struct{} // closed by Close

	mu      sync.Mutex // of the following
	closed  bool
	leaving []*model[M]    // removed by Set and Replace
	closing sync.WaitGroup // versions being closed
}

// New returns a registry without models.
func New[M io.Closer](o Options[M]) *Registry[M] {
	r := &Registry[M]{open: o.Open, poll: o.Poll, report: o.Report, turn: make(chan struct{}, 1), ending: make(chan struct{})}
	if r.report == nil {
		r.report = func(Event) {}
	}
	r.models.Store(&map[string]*model[M]{})
	return r
}

// Set sets the models that are served. It returns when every model's folder has been read
// once, with the error of the first that has no version available, or when ctx ends.
// Models served before keep serving meanwhile.
func (r *Registry[M]) Set(ctx context.Context, all []Config) error {
	if err := Check(all); err != nil {
		return err
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.release()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errEnding
	}
	r.leaving = slices.DeleteFunc(r.leaving, (*model[M]).isDone)
	before := *r.models.Load()
	next := map[string]*model[M]{}
	awaited := map[string]int{}
	for _, c := range all {
		m := before[c.Name]
		if m == nil {
			m = newModel(r, c)
			go m.poll(r.poll)
		} else {
			awaited[c.Name] = m.use(c)
		}
		next[c.Name] = m
	}
	r.swap(next)
	r.mu.Unlock()
	if err := r.await(ctx, all, next, awaited); err != nil {
		return err
	}
	return unavailable(all, next, false)
}

// await waits until each model has completed a round with its configuration.
func (r *Registry[M]) await(ctx context.Context, all []Config, models map[string]*model[M], number map[string]int) error {
	for _, c := range all {
		m := models[c.Name]
		for {
			m.mu.Lock()
			round := m.round
			ready := m.rounds > 0 && m.finished >= number[c.Name]
			m.mu.Unlock()
			if ready {
				break
			}
			select {
			case <-round:
			case <-m.done:
				return fmt.Errorf("serve: model %s was removed", c.Name)
			case <-r.ending:
				return errEnding
			case <-ctx.Done():
				return fmt.Errorf("serve: model %s: still loading: %w", c.Name, ctx.Err())
			}
		}
	}
	return nil
}

// unavailable returns the error of the first model without a version or, with each, without one that its policy names.
func unavailable[M io.Closer](all []Config, models map[string]*model[M], each bool) error {
	for _, c := range all {
		if m := models[c.Name]; m != nil {
			if err := m.lack(each); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ready reports for each model whether a version is available.
func (r *Registry[M]) Ready() map[string]bool {
	ready := map[string]bool{}
	for name, m := range *r.models.Load() {
		ready[name] = m.view.Load().latest != nil
	}
	return ready
}

// Models returns the sorted names of the models.
func (r *Registry[M]) Models() []string { return slices.Sorted(maps.Keys(*r.models.Load())) }

// Status returns the status of the versions of a model, the newest first. It returns false
// if there is no such model.
func (r *Registry[M]) Status(name string) ([]Status, bool) {
	m := (*r.models.Load())[name]
	if m == nil {
		return nil, false
	}
	return m.statuses(), true
}

// Close stops every model and waits until the last version is closed.
func (r *Registry[M]) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.ending)
		for _, m := range *r.models.Load() {
			close(m.stop)
			r.leaving = append(r.leaving, m)
		}
	}
	r.mu.Unlock()
	r.turn <- struct{}{} // a Set or a Replace in progress ends
	defer r.release()
	for _, m := range r.leaving {
		<-m.done
	}
	r.closing.Wait()
}
