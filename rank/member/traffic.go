package member

import (
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/rank"
)

// traffic says what heartbeats carry about the links to other hosts.
func traffic(links *tcp.Transport) func(begun bool) rank.Traffic {
	return func(begun bool) (t rank.Traffic) {
		for _, x := range links.Stalled() {
			t.Waits = append(t.Waits, rank.Wait(x))
		}
		if begun {
			for _, x := range links.Begun() {
				t.Begun = append(t.Begun, rank.Begun(x))
			}
		}
		return t
	}
}
