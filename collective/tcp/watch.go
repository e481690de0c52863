package tcp

import (
	"math/bits"
	"time"
)

// stallTime is the interval between looks at the exchanges.
const stallTime = 250 * time.Millisecond

// watch looks at the exchanges every stallTime. While one has stalled, it sends small
// frames to the peers on other hosts, less and less often. A peer that receives them and no
// message learns that only large packets are lost.
func (t *Transport) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for i := range t.slots {
				t.slots[i].countStalled()
				if looks := t.slots[i].stalled(); looks >= minStill && bits.OnesCount(looks) == 1 {
					t.probe()
				}
			}
		case <-t.quit:
			return
		}
	}
}

// probe sends a small frame to every peer on another host.
func (t *Transport) probe() {
	for _, p := range t.peers {
		if p != nil && !p.near && !p.hasLeft() {
			p.control.write(controlOf(kindProbe, nil))
		}
	}
}
