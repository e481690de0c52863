package command

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
)

// signalOrders forwards SIGUSR1 to the ranks as the order to write a checkpoint, and
// SIGUSR2 as the order to write their timelines.
func signalOrders() (<-chan control.Order, func()) {
	signals, orders, done := make(chan os.Signal, 1), make(chan control.Order), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for {
			select {
			case s := <-signals:
				order := control.Checkpoint
				if s == syscall.SIGUSR2 {
					order = control.Timeline
				}
				select {
				case orders <- order:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	return orders, func() { signal.Stop(signals); close(done) }
}

// StartGrace is the time after the first signal within which a start, or a command without
// ranks, must end. Then the process exits: a blocked read of a disk cannot be interrupted.
const StartGrace = 3 * time.Second

// StopWithin is the time for a training to write its checkpoint after SIGTERM.
const StopWithin = 2 * time.Minute
