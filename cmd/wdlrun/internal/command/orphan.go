package command

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/rank"
)

// orphanPause is the time between two looks for the process that started this rank. The first rank of
// a host reports its end. The others end with that rank, or by themselves some looks later.
const (
	orphanPause = 500 * time.Millisecond
	orphanLooks = 6
)

// endsWith reports whether the ranks of a launcher end with it: it is the parent of those of a host, and
// does not end before them. The variables of others may be left over in a shell.
func endsWith(w rank.World, getenv func(string) string) bool {
	switch w.By {
	case "torchrun":
		return getenv("TORCHELASTIC_RUN_ID") != ""
	case "openmpi", "mpich", "mvapich", "mvapich 3":
		return true
	}
	return false
}

// followLauncher sends SIGTERM to this rank when the launcher that started it has ended, for example by
// SIGKILL: nothing else would end its ranks. Until stop is called, a pipe that the launcher has read
// does not end this process either.
func followLauncher(w rank.World, getenv func(string) string, to io.Writer) (stop func()) {
	parent := os.Getppid()
	if parent <= 1 || !endsWith(w, getenv) {
		return func() {}
	}
	signal.Ignore(syscall.SIGPIPE)
	tick, done := time.NewTicker(orphanPause), make(chan struct{})
	go func() {
		defer tick.Stop()
		for looks := 0; ; {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			if os.Getppid() == parent {
				continue
			}
			if looks++; w.LocalRank > 0 && looks < orphanLooks {
				continue
			}
			if w.LocalRank == 0 {
				fmt.Fprintf(to, "wdlrun: %s, process %d, which started this rank, has ended: the ranks end as after SIGTERM, a training with a checkpoint\n", w.By, parent)
			}
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			return
		}
	}()
	return func() { close(done) }
}
