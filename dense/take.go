package dense

import (
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/optim"
)

// maxEntries bounds the number of entries that a saved arena can announce.
const maxEntries = 1 << 16

// readSaved reads the output of Save of any model. Its memory grows with the bytes that arrive.
func readSaved(r io.Reader) (all []entry, err error) {
	in := &summed{from: r, sum: xxh3.New()}
	n, err := in.begin()
	if err == nil && n > maxEntries {
		err = fmt.Errorf("%d entries, at most %d are possible: the data is damaged", n, maxEntries)
	}
	if err != nil {
		return nil, fmt.Errorf("dense: read: %w", err)
	}
	for i := range n {
		e, err := in.whole()
		if err != nil {
			return nil, fmt.Errorf("dense: read: entry %d of %d: %w", i+1, n, err)
		}
		all = append(all, e)
	}
	if err := in.end(); err != nil {
		return nil, fmt.Errorf("dense: read: %w", err)
	}
	return all, nil
}

// whole reads an entry of any size.
func (s *summed) whole() (e entry, err error) {
	e, stateLen, err := s.head()
	if err != nil {
		return e, err
	}
	if e.cols > 0 && e.rows > maxFloats/e.cols {
		return e, fmt.Errorf("%v: more than %d floats: the data is damaged", e, maxFloats)
	}
	if known := e.rule == "" || slices.Contains(optim.Kinds(), e.rule); !known || e.rule == "" && stateLen != 0 || e.rule != "" && stateLen != (optim.Rule{Kind: e.rule}).StateLen(e.rows*e.cols) {
		return e, fmt.Errorf("%v: %d floats of state of rule %q: the data is damaged", e, stateLen, e.rule)
	}
	if e.values, err = s.floats(e.rows * e.cols); err == nil {
		e.state, err = s.floats(stateLen)
	}
	if err != nil {
		err = fmt.Errorf("%v: %w", e, err)
	}
	return e, err
}

// floats reads n floats, a part at a time.
func (s *summed) floats(n int) (all []float32, err error) {
	const part = 1 << 16
	for len(all) < n && err == nil {
		at := len(all)
		all = append(all, make([]float32, min(part, n-at))...)
		err = s.read(raw.Bytes(all[at:]))
	}
	return all, err
}

// Axes maps rows and columns of a parameter to rows and columns of a saved one. A nil axis is
// unchanged; −1 stands for a row or column that the saved parameter does not have. Such a row or
// column becomes zero, or with Initial has its initial values.
type Axes struct {
	Rows, Cols []int
	Initial    bool
}

// Rescale keeps the values of parameters that were trained with the rules of other groups, of the same number, although
// the constants of their rule have changed (optim.Rule.Rescale). Call it after Load or Take.
func (a *Arena) Rescale(was []Group) {
	for _, p := range a.params {
		if p.group < len(was) {
			a.groups[p.group].Rule.Rescale(was[p.group].Rule, p.Value, p.State)
		}
	}
	a.Changed()
}

// Take replaces parameters, their optimizer state and running statistics by those that Save
// wrote for another model under the same names, as far as their shapes agree under axes, which may
// be nil. Rows and columns that the saved parameter does not have get the state of an untrained
// parameter. The state of another rule is not taken, and none without states. Take returns the names of the parameters that keep their
// own values. On an error the arena is unchanged.
func (a *Arena) Take(r io.Reader, states bool, axes func(name string) Axes) (own []string, err error) {
	if !a.built {
		panic("dense: Arena.Take: comes before Build")
	}
	saved, err := readSaved(r)
	if err != nil {
		return nil, err
	}
	rules := map[string]optim.Rule{}
	for _, p := range a.params {
		if len(a.groups) > 0 {
			rules[p.Name] = a.groups[p.group].Rule
		}
	}
	for _, e := range a.entries() {
		from := slices.IndexFunc(saved, func(x entry) bool { return x.kind == e.kind && x.name == e.name })
		var by Axes
		if axes != nil {
			by = axes(e.name)
		}
		if from < 0 || !e.take(&saved[from], by, rules[e.name], states) {
			own = append(own, e.name)
		}
	}
	a.Changed()
	a.ZeroGrad()
	return own, nil
}

// take replaces the values of e and reports whether the shapes agree.
func (e *entry) take(from *entry, by Axes, rule optim.Rule, states bool) bool {
	axis := func(list []int, now, was int) []int {
		switch {
		case list == nil && now == was:
			list = make([]int, now)
			for i := range list {
				list[i] = i
			}
		case list == nil || len(list) != now || slices.Max(append(slices.Clone(list), -1)) >= was:
			return nil
		}
		return list
	}
	rows, cols := axis(by.Rows, e.rows, from.rows), axis(by.Cols, e.cols, from.cols)
	if rows == nil || cols == nil {
		return e.rows*e.cols == 0 && from.rows*from.cols == 0
	}
	scatter := func(to, saved []float32, clearNew bool) {
		for i, r := range rows {
			for j, c := range cols {
				switch at := i*e.cols + j; {
				case r >= 0 && c >= 0:
					to[at] = saved[r*from.cols+c]
				case clearNew:
					to[at] = 0
				}
			}
		}
	}
	scatter(e.values, from.values, !by.Initial)
	if e.rule == "" {
		return true
	}
	rule.InitState(e.values, e.state)
	if e.rule != from.rule || !states {
		return true
	}
	now, was := e.rows*e.cols, from.rows*from.cols
	if now == 0 || len(e.state)%now != 0 || len(e.state)/now*was != len(from.state) { // of the whole parameter
		copy(e.state, from.state)
		return true
	}
	for k := range len(e.state) / now {
		scatter(e.state[k*now:(k+1)*now], from.state[k*was:(k+1)*was], false)
	}
	return true
}
