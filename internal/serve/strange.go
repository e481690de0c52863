package serve

import "sync"

// strange holds the inputs of requests that the models do not have.
type strange struct {
	mu     sync.Mutex
	models map[string]map[string]bool
}

// maxStrange limits the names of a model.
const maxStrange = 100

// report calls to with the inputs that are new.
func (s *strange) report(model string, inputs []string, to func(model, input string)) {
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
	for _, input := range inputs {
		if !known[input] && len(known) < maxStrange {
			known[input] = true
			to(model, input)
		}
	}
}
