package train

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/launcher"
)

// endStart ends a rank that was asked to stop before its first step.
func endStart(p *command.Program, job *train.Job) {
	if job.Starting() {
		fmt.Fprintf(p.Stderr, "wdlrun: stopped during the start, in phase %s: nothing was trained\n", job.Status().Phase)
		os.Exit(command.StoppedCode)
	}
}

// requests forwards orders and signals to the job: a checkpoint at the end of the step,
// with or without the end of the training, or a timeline. The launcher ends its ranks by
// SIGTERM, as clusters do that reclaim a machine. A rank of another launcher ignores
// SIGTERM once its work is done: such a launcher may send it to all ranks as soon as one
// has failed.
func requests(p *command.Program, s *control.Session, job *train.Job) (stop func()) {
	signals, done := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(signals, append(launcher.NotIgnored(syscall.SIGTERM, os.Interrupt), syscall.SIGUSR1, syscall.SIGUSR2)...)
	go func() {
		for {
			select {
			case o := <-s.Orders():
				switch o {
				case control.Checkpoint:
					job.RequestCheckpoint()
				case control.Timeline:
					job.RequestTimeline()
				case control.Stop:
					job.RequestStop()
				}
			case sig := <-signals:
				if sig == syscall.SIGUSR1 {
					job.RequestCheckpoint()
					break
				}
				if sig == syscall.SIGUSR2 {
					job.RequestTimeline()
					break
				}
				if sig == syscall.SIGTERM {
					s.Report(control.Leaving, nil) // unless it is the launcher that ends the ranks
				}
				job.RequestStop()
				if !s.World().Launched { // wdlrun's launcher kills ranks that take too long
					time.AfterFunc(command.StartGrace, func() { endStart(p, job) })
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		if s.World().Launched {
			signal.Stop(signals)
		}
		close(done)
	}
}
