package online

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/wdlrun/wdlrun/launcher"
)

// endAtOnce makes a second signal end the program at once. The first one ends the parts, for which the program
// waits. Call stop to release the signals.
func (o *online) endAtOnce() (stop func()) {
	o.p.OwnsRanks.Store(true) // the parts end in their own time, without StartGrace
	ending := launcher.NotIgnored(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if len(ending) == 0 {
		return func() {}
	}
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, ending...)
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if again := (launcher.Interrupted{Signal: s}); !first {
					fmt.Fprintf(o.p.Stderr, "wdlrun: online: %v again: the parts are killed\n", again)
					o.end("killed by a second signal")
					os.Exit(again.Code()) // on Linux, the kernel kills the parts
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// end writes that all parts have ended, those that had not with a reason.
func (o *online) end(why string) {
	o.mu.Lock()
	for _, x := range o.parts {
		if x.State != "ended" {
			x.State, x.Error, x.Process = "ended", cmp.Or(why, x.Error), 0
		}
	}
	o.mu.Unlock()
	o.write()
}

// reportFailed prints a version that the server cannot load, once.
func (o *online) reportFailed() {
	if f := o.watch.state.Failed; f != nil && f.Version != o.failed {
		o.failed = f.Version
		fmt.Fprintf(o.p.Stderr, "online: %s\n", f.line())
	}
}

func (f *failedVersion) line() string {
	return fmt.Sprintf("version %d cannot be served: %s", f.Version, f.Error)
}
