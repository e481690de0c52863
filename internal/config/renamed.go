package config

// Renamed returns a function from the name of a feature to its name in was, the filled
// configuration of the model that a training begins with; "" stands for a feature that was does
// not have. missing lists the features whose was names none.
func Renamed(was, now *Config) (of func(name string) string, missing []string) {
	before := map[string]string{} // by name: its own was
	for _, f := range was.Features {
		before[f.Name] = f.Was
	}
	old, claimed := map[string]string{}, map[string]bool{}
	for _, f := range now.Features {
		if f.Was == "" {
			continue
		}
		name := f.Was
		own, has := before[f.Name]
		_, known := before[f.Was]
		switch {
		case has && (own == f.Was || !known): // the source has the new name already
			name = f.Name
		case !known:
			missing = append(missing, f.Name)
			continue
		}
		old[f.Name], claimed[name] = name, true
	}
	for _, f := range now.Features {
		if _, has := before[f.Name]; has && f.Was == "" && !claimed[f.Name] {
			old[f.Name] = f.Name
		}
	}
	return func(name string) string { return old[name] }, missing
}
