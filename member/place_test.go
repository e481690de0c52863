package member

import (
	"fmt"
	"slices"
	"testing"
)

// TestPlace compares the host of each rank, derived from the names of hosts and machines, with
// the expected one.
func TestPlace(t *testing.T) {
	for _, k := range []struct {
		names              []string
		hostOf             []int
		hosts, size, least int // as seen by the last rank
		index              int
	}{
		{[]string{"2 a", "2 a", "2 b", "2 b"}, []int{0, 0, 1, 1}, 2, 2, 2, 1},
		{[]string{"2 a", "3 b", "2 a", "3 b", "3 b"}, []int{0, 1, 0, 1, 1}, 2, 3, 2, 2},
		{[]string{"0 a", "0 a", "0 b"}, []int{0, 0, 1}, 2, 1, 1, 0},
		{[]string{"1 a", "1 a"}, []int{0, 0}, 1, 2, 1, 1},                     // two hosts with one name
		{[]string{"2 a", "2 a", "2 a", "2 a"}, []int{0, 0, 0, 0}, 1, 4, 1, 3}, // two hosts with one name
	} {
		var notes []note
		for _, n := range k.names {
			var o note
			fmt.Sscan(n, &o.Local, &o.Host)
			notes = append(notes, o)
		}
		p := newPlace(notes, len(notes)-1)
		if !slices.Equal(p.hostOf, k.hostOf) || p.hosts != k.hosts || p.size != k.size || p.least != k.least || p.index != k.index {
			t.Errorf("%q: %+v", k.names, p)
		}
	}
}
