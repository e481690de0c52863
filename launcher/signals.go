package launcher

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupted is the cause of a context that was ended by a signal.
type Interrupted struct {
	Signal os.Signal
}

func (i Interrupted) Error() string {
	name := i.Signal.String()
	switch i.Signal {
	case syscall.SIGINT:
		name = "SIGINT"
	case syscall.SIGTERM:
		name = "SIGTERM"
	case syscall.SIGHUP:
		name = "SIGHUP"
	}
	return "interrupted by " + name
}

// Code returns the exit code for the signal: 128 plus its number.
func (i Interrupted) Code() int { return 128 + signalNumber(i.Signal) }

// NotIgnored returns the signals that were not ignored when the process started. The
// others stay ignored: nohup and shells that start a program in the background rely on
// it. Call it before signal.Notify.
func NotIgnored(signals ...os.Signal) (rest []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// WithSignals returns a context that ends, with the cause Interrupted, when the process
// gets SIGINT, SIGTERM or SIGHUP and does not ignore it. A second signal ends the
// process at once, and the guard ends its ranks. Call stop to release the signals.
func WithSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	if ending := NotIgnored(endingSignals[:]...); len(ending) > 0 { // Notify without signals means all signals
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
