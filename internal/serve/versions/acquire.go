package versions

import (
	"fmt"
)

// Want names a version by number, by label, or as the latest.
type Want struct {
	Model      string
	Version    int64
	HasVersion bool
	Label      string
}

// NotFound is the error for a model or a version that is not available.
type NotFound struct{ text string }

func (e *NotFound) Error() string { return e.text }

// BadWant is the error for an invalid Want.
type BadWant struct{ text string }

func (e *BadWant) Error() string { return e.text }

// Acquire returns the requested version. The caller releases it. Errors are *NotFound and
// *BadWant.
func (r *Registry[M]) Acquire(w Want) (*Version[M], error) {
	if w.Model == "" {
		return nil, &BadWant{"serve: the request names no model"}
	}
	if w.HasVersion && w.Label != "" {
		return nil, &BadWant{fmt.Sprintf("serve: model %s: the request names both version %d and label %q", w.Model, w.Version, w.Label)}
	}
	for {
		m := (*r.models.Load())[w.Model]
		if m == nil {
			return nil, &NotFound{fmt.Sprintf("serve: there is no model %q", w.Model)}
		}
		seen := m.view.Load()
		v, err := seen.choose(&w)
		if err != nil {
			return nil, err
		}
		if v.acquire() {
			return v, nil
		}
		if m.view.Load() == seen && (*r.models.Load())[w.Model] == m { // it is being removed from the registry
			return nil, &NotFound{fmt.Sprintf("serve: model %s is no longer served", w.Model)}
		}
	}
}

// choose returns the requested version.
func (s *view[M]) choose(w *Want) (*Version[M], error) {
	number := w.Version
	if w.Label != "" {
		n, ok := s.labels[w.Label]
		if !ok {
			return nil, &BadWant{fmt.Sprintf("serve: model %s has no label %q", w.Model, w.Label)}
		}
		number = n
	} else if !w.HasVersion {
		if s.latest == nil {
			return nil, &NotFound{fmt.Sprintf("serve: model %s has no version available", w.Model)}
		}
		return s.latest, nil
	}
	v := s.versions[number]
	if v == nil {
		return nil, &NotFound{fmt.Sprintf("serve: model %s: version %d is not available", w.Model, number)}
	}
	return v, nil
}
