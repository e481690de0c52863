package cpus

import (
	"strings"
	"testing"
)

// TestNotes: a limit is named if it makes ranks share CPUs that the machine has, and otherwise not.
func TestNotes(t *testing.T) {
	const bound, quota = "4 ranks share 1 CPU, 3 of 16: ", "a quota of the control group allows 1.5 CPUs to 4 ranks: "
	for _, x := range []struct {
		room  Room
		ranks int
		want  []string
	}{
		{Room{}, 64, nil},
		{Room{[]int{0, 1, 2, 3}, 4, 0}, 16, nil}, // all of the machine
		{Room{[]int{0, 1, 2, 3}, 16, 0}, 4, nil}, // a CPU each
		{Room{[]int{3}, 16, 0}, 4, []string{bound}},
		{Room{[]int{3}, 16, 0}, 1, nil},
		{Room{[]int{0, 1, 2, 3}, 4, 1.5}, 4, []string{quota}},
		{Room{[]int{0, 1, 2, 3}, 4, 4}, 4, nil},
		{Room{[]int{0, 1, 2, 3}, 4, 6}, 8, nil}, // the CPUs are fewer
		{Room{nil, 0, 1.5}, 4, []string{quota}},
		{Room{[]int{3}, 16, 1.5}, 4, []string{bound}}, // the CPU is less than the quota
		{Room{[]int{0, 1}, 16, 1.5}, 4, []string{"4 ranks share 2 CPUs, 0-1 of 16: ", quota}},
	} {
		got := x.room.Notes(x.ranks)
		same := len(got) == len(x.want)
		for i := range min(len(got), len(x.want)) {
			same = same && strings.HasPrefix(got[i], x.want[i])
		}
		if !same {
			t.Errorf("%+v, %d ranks: %q, want %q", x.room, x.ranks, got, x.want)
		}
	}
	here := RoomHere()
	if here.Online < len(here.Allowed) || here.Quota < 0 {
		t.Errorf("this machine: %+v", here)
	}
}
