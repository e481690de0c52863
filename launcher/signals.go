package launcher

import (
	"context"
	"os"
	"os/signal"
)

// Interrupted is the cause of a context that a signal has ended.
type Interrupted struct {
	Signal os.Signal
}

func (i Interrupted) Error() string { return "interrupted by signal: " + i.Signal.String() }

// Code is the exit code of a process that ends for it: 128 and the signal's number.
func (i Interrupted) Code() int { return 128 + signalNumber(i.Signal) }

// NotIgnored returns those of some signals that were not ignored when the process
// started. The others stay ignored: nohup and shells that start a program in the
// background rely on it. Call it before signal.Notify.
func NotIgnored(signals ...os.Signal) (rest []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// WithSignals returns a context that ends when the process is asked to end
// (SIGINT, SIGTERM, SIGHUP, unless ignored), with the cause Interrupted. A second such signal
// ends the process at once, and the guard its ranks. stop ends the watch for
// signals and must be called.
func WithSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	if ending := NotIgnored(endingSignals[:]...); len(ending) > 0 { // Notify takes none for all
		signal.Notify(signals, ending...)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(Interrupted{s})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
