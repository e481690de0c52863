// Package ledger decides what happens in a folder of published versions: which number the next
// version has, what a version builds upon, what is kept, and what labels name. The decisions are
// pure; files.go reads and writes the small files of a folder.
//
//	7/ 8/ 9/      versions, each complete or the changes of another one
//	pins/stable   the number of the version with the label "stable"
//	hold.json     while it exists, no training publishes here
//
// Writers change the folder only by renames, and only while they hold the folder's lock
// (package export). A crash therefore leaves it as before or after a rename.
package ledger

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Version is what the ledger knows of one version.
type Version struct {
	Number  int64
	Taken   int64  // when the training had done the step, Unix nanoseconds; 0: another program wrote it
	Lineage string // id of the training
	Delta   *Delta // nil: it is complete
	Fault   string // why it cannot be opened; "" if no fault is known
}

// Delta names the version that another one changes.
type Delta struct {
	Previous int64
	Taken    int64 // of that version
}

// Folder is the state of a folder.
type Folder struct {
	Versions map[int64]Version
	Pins     map[string]int64 // by label
}

// Keep says which versions a training keeps. Pinned versions, the last one of the training before,
// versions of other programs and all versions that a kept one builds upon are kept in any case.
type Keep struct {
	Versions int // the newest ones
	Complete int // the newest complete ones
	Hours    int // the last complete one of each of the last hours
}

// MaxChain is the maximum number of versions that one builds upon.
const MaxChain = 1 << 12

// Next returns the number of the next version of a step, in a folder with the given highest
// number. Numbers only rise.
func Next(step, highest int64) (int64, error) {
	if highest == math.MaxInt64 {
		return 0, fmt.Errorf("the folder has version %d, and no number is higher: remove that version", highest)
	}
	return max(step, highest+1), nil
}

// Numbers returns the numbers of all versions, ascending.
func (f *Folder) Numbers() []int64 {
	all := make([]int64, 0, len(f.Versions))
	for n := range f.Versions {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// Chain returns the versions that are read to open version n: a complete one, then changes up to
// n. The error names the version that is missing, replaced or faulty.
func (f *Folder) Chain(n int64) (chain []int64, err error) {
	v, ok := f.Versions[n]
	if !ok {
		return nil, fmt.Errorf("version %d is not there", n)
	}
	for {
		if v.Fault != "" {
			return nil, fmt.Errorf("version %d: %s", v.Number, v.Fault)
		}
		if chain = append(chain, v.Number); v.Delta == nil {
			slices.Reverse(chain)
			return chain, nil
		}
		before, ok := f.Versions[v.Delta.Previous]
		switch {
		case !ok:
			return nil, fmt.Errorf("version %d, which version %d changes, is not there", v.Delta.Previous, v.Number)
		case before.Taken != v.Delta.Taken || before.Number >= v.Number:
			return nil, fmt.Errorf("version %d, which version %d changes, has been replaced", v.Delta.Previous, v.Number)
		case len(chain) == MaxChain:
			return nil, fmt.Errorf("version %d builds upon more than %d versions", n, MaxChain)
		}
		v = before
	}
}

// Incomplete returns the pinned versions that depend on others, ascending. They must become
// complete.
func (f *Folder) Incomplete() (all []int64) {
	for _, n := range f.Pins {
		if v, ok := f.Versions[n]; ok && v.Delta != nil && !slices.Contains(all, n) {
			if _, err := f.Chain(n); err == nil {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Remove returns the versions that a training removes, ascending. last is the version on which
// its next one will build.
func (f *Folder) Remove(k Keep, last int64, now time.Time) (all []int64) {
	kept := map[int64]bool{}
	keep := func(n int64) {
		chain, _ := f.Chain(n)
		for _, c := range chain {
			kept[c] = true
		}
		kept[n] = true
	}
	keep(last)
	for _, n := range f.Pins {
		keep(n)
	}
	versions, complete, hours := max(k.Versions, 1), max(k.Complete, 1), map[int64]bool{}
	numbers, before := f.Numbers(), 1
	for _, n := range slices.Backward(numbers) {
		v := f.Versions[n]
		if _, err := f.Chain(n); err != nil || v.Taken == 0 {
			continue
		}
		if before > 0 && n < last && v.Lineage != f.Versions[last].Lineage {
			before--
			keep(n)
		}
		if versions > 0 {
			versions--
			keep(n)
		}
		if v.Delta != nil {
			continue
		}
		if complete > 0 {
			complete--
			keep(n)
		}
		at := time.Unix(0, v.Taken)
		if hour := at.Unix() / 3600; now.Sub(at) < time.Duration(k.Hours)*time.Hour && !hours[hour] {
			hours[hour] = true
			keep(n)
		}
	}
	for _, n := range numbers {
		if v := f.Versions[n]; !kept[n] && v.Taken != 0 && n < last {
			all = append(all, n)
		}
	}
	return all
}
