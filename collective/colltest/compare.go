package colltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/rank"
)

// compareEvery is how often the calls of a group are compared.
const compareEvery = 3 * time.Millisecond

// Compare does for a group in one process what the coordinator of a job does: it compares
// the calls that the ranks have begun (rank.Calls), on every channel, until stop is called,
// and ends the group if ranks disagree. A transport alone finds only what a message shows.
func Compare(comms []*collective.Comm, channels int) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(compareEvery)
		defer tick.Stop()
		var calls rank.Calls
		for {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
			for r, c := range comms {
				if d := calls.Report(r, begun(c, channels)); d != nil {
					c.Abort(fmt.Errorf("%v", d))
					return
				}
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// begun returns what a rank reports. A channel on which a call begins meanwhile is left out.
func begun(c *collective.Comm, channels int) (all []rank.Call) {
	for i := range channels {
		made, _ := c.Made(i)
		for _, m := range made {
			all = append(all, rank.Call{Channel: i, Part: m.Tag.Group, Seq: m.Tag.Seq, Hash: m.Hash(), Name: m.Tag.What(), Last: m.Last})
		}
	}
	return all
}

// Disagree reports whether err says that ranks made different calls: a message showed it
// (*collective.MismatchError), or the comparison of their calls did.
func Disagree(err error) bool { return err != nil && strings.Contains(err.Error(), "calls differ: ") }
