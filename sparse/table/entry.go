package table

// entry is a key to save: with an unchanged row, with a kept one, or with neither if the
// key was removed.
type entry struct {
	key  uint64
	row  Row
	item uint32
}

func (e entry) isGone() bool { return e.row == 0 && e.item == 0 }

func countGone(all []entry) (n int) {
	for _, e := range all {
		if e.isGone() {
			n++
		}
	}
	return n
}

func (e entry) compare(o entry) int {
	switch {
	case e.key < o.key:
		return -1
	case e.key > o.key:
		return 1
	}
	return 0
}
