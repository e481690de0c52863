package colltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/rank"
)

// compareEvery is the interval between comparisons of a group's calls.
const compareEvery = 3 * time.Millisecond

// Compare acts as the coordinator of a job for a group in one process. Until stop is called, it
// compares the calls that the ranks have begun (rank.Calls) on every channel and ends the group
// if they disagree. A transport only detects differences that a message shows.
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

// begun returns the report of a rank. It omits a channel on which a call is just beginning.
func begun(c *collective.Comm, channels int) (all []rank.Call) {
	for i := range channels {
		made, _ := c.Made(i)
		for _, m := range made {
			all = append(all, rank.Call{Channel: i, Part: m.Tag.Group, Seq: m.Tag.Seq, Hash: m.Hash(), Name: m.Tag.Describe(), Last: m.Last})
		}
	}
	return all
}

// Disagree reports whether err means that ranks made different calls, detected by a message
// (*collective.MismatchError) or by comparing their calls.
func Disagree(err error) bool { return err != nil && strings.Contains(err.Error(), "calls differ: ") }
