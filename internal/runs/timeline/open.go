package timeline

func newTimeline(ranks []*Rank, faults []string) *Timeline {
	t := &Timeline{Ranks: ranks, Faults: faults}
	has := map[int]bool{}
	for _, r := range ranks {
		has[r.Rank] = true
	}
	for r := range ranks[0].Size {
		if !has[r] {
			t.Missing = append(t.Missing, r)
		}
	}
	t.steps = commonSteps(ranks)
	t.align()
	return t
}

// Open reads and aligns the trace files of a run directory.
func Open(dir string) (*Timeline, error) {
	ranks, faults, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return newTimeline(ranks, faults), nil
}
