package versions

import (
	"context"
	"errors"
	"reflect"
)

var errEnding = errors.New("serve: the server is shutting down")

// enter waits for the turn of a Set or a Replace.
func (r *Registry[M]) enter(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-r.ending:
		return errEnding
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Registry[M]) release() { <-r.turn }

// Replace sets the models that are served, all or none. It opens the versions of each model whose
// configuration has changed, while the models served before answer. If a model has no version that
// can be opened, or not each that its policy names, or ctx ends, nothing changes or is reported, and Replace returns the first error. Versions that
// are open already are not opened again. The folders of unchanged models are read again.
func (r *Registry[M]) Replace(ctx context.Context, all []Config) error {
	if err := Check(all); err != nil {
		return err
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.release()
	before := *r.models.Load()
	next, fresh := map[string]*model[M]{}, map[string]*model[M]{}
	var changed []Config
	for _, c := range all {
		m := before[c.Name]
		if m != nil && m.has(c) {
			m.use(c)
		} else {
			from := m
			m = newModel(r, c)
			m.from, m.hidden, fresh[c.Name] = from, true, m
			changed = append(changed, c)
			go m.poll(r.poll)
		}
		next[c.Name] = m
	}
	err := r.await(ctx, changed, fresh, nil)
	if err == nil {
		err = unavailable(changed, fresh, true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.closed {
		err = errEnding
	}
	if err != nil {
		for _, m := range fresh {
			close(m.stop)
			r.leaving = append(r.leaving, m)
		}
		return err
	}
	r.swap(next)
	for _, m := range fresh {
		defer m.reportPending() // after r.mu is free
	}
	return nil
}

// swap makes models visible and stops those that they replace. The caller holds r.mu.
func (r *Registry[M]) swap(next map[string]*model[M]) {
	before := *r.models.Load()
	r.models.Store(&next)
	for name, m := range before {
		if next[name] != m {
			close(m.stop)
			r.leaving = append(r.leaving, m)
		}
	}
}

// has reports whether a model has this configuration.
func (m *model[M]) has(c Config) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reflect.DeepEqual(m.config, c)
}

// use gives a model a configuration and makes it read its folder. It returns the number of the
// configuration.
func (m *model[M]) use(c Config) int {
	m.mu.Lock()
	m.config = c
	m.newest++
	n := m.newest
	m.mu.Unlock()
	select {
	case m.kick <- struct{}{}:
	default:
	}
	return n
}

// adopt takes over a version that the replaced model has open. It returns false if there is none.
// The version is closed when both have released it.
func (m *model[M]) adopt(c *Config, n int64, dir string) bool {
	if m.from == nil {
		return false
	}
	of := m.from.view.Load().versions[n]
	if of == nil || of.dir != dir || !of.acquire() {
		return false
	}
	if root := of.root; root != nil && root.acquire() {
		of.Release()
		of = root
	}
	v := &Version[M]{Number: n, Model: of.Model, Since: of.Since, dir: dir, root: of}
	v.refs.Store(1)
	v.gone = func() {
		of.Release() // reports the end of the version
		m.mu.Lock()
		m.status[n] = Status{Number: n, State: Ended}
		m.mu.Unlock()
		m.of.closing.Done()
	}
	m.loaded[n] = v
	m.publish(c)
	m.mu.Lock()
	m.status[n] = Status{Number: n, State: Available}
	m.mu.Unlock()
	return true
}

// current returns the latest version, upon which another one is opened, and what to call
// afterwards. It is the replaced model's, if the model has none yet.
func (m *model[M]) current() (*Version[M], func()) {
	if v := m.view.Load().latest; v != nil {
		return v, func() {} // only this goroutine releases it
	}
	if m.from != nil {
		if v := m.from.view.Load().latest; v != nil && v.acquire() {
			return v, v.Release
		}
	}
	return nil, func() {}
}
