package serve

import "sync"

// strange holds names in requests that have no meaning: inputs that the models do not have, or members of bodies.
type strange struct {
	mu     sync.Mutex
	models map[string]map[string]bool
}

// maxStrange limits the names of a model.
const maxStrange = 100

// report calls to, which may be nil, with the names that are new.
func (s *strange) report(model string, names []string, to func(model, name string)) {
	if len(names) == 0 || to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.models[model]
	if known == nil {
		known = map[string]bool{}
		if s.models == nil {
			s.models = map[string]map[string]bool{}
		}
		s.models[model] = known
	}
	for _, name := range names {
		if !known[name] && len(known) < maxStrange {
			known[name] = true
			to(model, name)
		}
	}
}
