package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// mpiWorld returns the World of rank r of a job that another launcher started on this host.
func mpiWorld(dir string, r, size int) rank.World {
	return rank.World{Rank: r, Size: size, LocalRank: r, LocalSize: size, Host: "here", By: "openmpi", Named: fmt.Sprintf("RANK=%d", r), Job: "openmpi-7", Rendezvous: dir}
}

// enterAll runs a job of size ranks to its end. It fails the test if any rank fails.
func enterAll(t *testing.T, size int, w func(r int) rank.World) {
	t.Helper()
	for r, err := range all(size, func(r int) error {
		s, err := Enter(t.Context(), w(r), fmt.Sprint(r), Options{Timeout: patient.Longest})
		if err != nil {
			return err
		}
		defer s.Close()
		if len(s.Roster()) != size || s.Roster()[size-1] != fmt.Sprint(size-1) || s.World().Key == (rank.Key{}) {
			return fmt.Errorf("roster %v, world %v", s.Roster(), s.World())
		}
		return s.Done(nil)
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestMeetingByFile(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	stale, err := mpiWorld(dir, 0, 3).Meeting()
	fatal.If(t, err)
	// Files of jobs that have ended: no process listens at the address; a process without the key listens
	// there; the file is not a meeting file.
	stranger := serve(t, Config{Size: 1})
	silent := listen(t)
	defer silent.Close()
	for _, leave := range []func(){
		func() {},
		func() { stale.Publish("127.0.0.1:1", rank.NewKey()) },
		func() { stale.Publish(stranger.Addr(), rank.NewKey()) },
		func() { os.WriteFile(stale.Path(), []byte("garbage"), 0o600) },
	} {
		leave()
		enterAll(t, 3, func(r int) rank.World { return mpiWorld(dir, r, 3) })
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("files left: %v", left)
		}
	}
}

func TestTwoJobsOfOneName(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	running := serve(t, Config{Size: 2})
	m, err := mpiWorld(dir, 0, 2).Meeting()
	fatal.If(t, err)
	fatal.If(t, m.Publish(running.Addr(), running.config.Key))
	if _, err := Enter(t.Context(), mpiWorld(dir, 0, 2), "", Options{}); err == nil || !strings.Contains(err.Error(), `another job named "openmpi-7" is running`) {
		t.Error(err)
	}
	if _, _, err := m.Read(); err != nil {
		t.Errorf("the file of the running job was removed: %v", err)
	}
}

func TestAlone(t *testing.T) {
	enterAll(t, 1, func(int) rank.World { return rank.World{Size: 1, LocalSize: 1, Host: "here"} })
}

func TestGivenCoordinator(t *testing.T) {
	ln := listen(t) // to find a free port
	addr := ln.Addr().String()
	ln.Close()
	key := rank.NewKey()
	enterAll(t, 2, func(r int) rank.World {
		return rank.World{Rank: r, Size: 2, LocalRank: r, LocalSize: 2, By: "indexed job", Coordinator: addr, Key: key}
	})
}

func TestEnterFails(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	taken, free := listen(t), listen(t)
	defer taken.Close()
	free.Close()
	for _, c := range []struct {
		w    rank.World
		want []string
	}{
		{mpiWorld(dir, 1, 2), []string{"rank 1: no coordinator within TIMEOUT", filepath.Join(dir, "openmpi-7.0"), "set WDLRUN_RENDEZVOUS", "by the variables of openmpi, this is rank 1 of 2 (RANK=1): if nothing starts the others, set WDLRUN_SIZE=1"}},
		{mpiWorld(dir, 0, 2), []string{"1 of 2 ranks did not join within TIMEOUT of the last that did: rank 1; by the variables of openmpi, this is rank 0 of 2 (RANK=0): if nothing"}},
		{rank.World{Size: 2, LocalSize: 2, By: "mpich"}, []string{"set WDLRUN_JOB"}},
		{rank.World{Size: 2, LocalSize: 2, Coordinator: taken.Addr().String(), Key: rank.NewKey()}, []string{"address already in use", "choose another port in WDLRUN_COORDINATOR"}},
		{rank.World{Size: 2, LocalSize: 1, Coordinator: free.Addr().String(), Key: rank.NewKey()}, []string{"did not join within TIMEOUT of the last that did: rank 1", "waited for them at " + free.Addr().String(), "WDLRUN_COORDINATOR, reaches that address"}},
		{rank.World{Size: 0}, []string{"world size 0"}},
	} {
		patient.Try(t, 200*time.Millisecond, func(timeout time.Duration) error {
			_, err := Enter(t.Context(), c.w, "", Options{Timeout: timeout})
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "TIMEOUT", timeout.String()); err == nil || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("got  %v\nwant %s", err, want)
				}
			}
			return nil
		})
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// TestHostFails: if rank 0, which hosts the coordinator, fails, the other ranks report its
// error, not the loss of the coordinator.
func TestHostFails(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	errs := all(3, func(r int) error {
		s, err := Enter(t.Context(), mpiWorld(dir, r, 3), "", Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		if r == 0 {
			return s.Fail(errors.New("disk full"), -1)
		}
		<-s.Aborted()
		return s.Err()
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "failed: disk full") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestHostKilled: if the process of rank 0, which hosts the coordinator, is killed, the other
// ranks report it at once, with their last step and phase.
func TestHostKilled(t *testing.T) {
	ln := listen(t) // to find a free port
	w := rank.World{Size: 2, LocalSize: 2, Coordinator: ln.Addr().String(), Key: rank.NewKey(), Host: "here"}
	ln.Close()
	zero := exec.CommandContext(t.Context(), os.Args[0])
	zero.Env = append(append(os.Environ(), w.Env()...), "CONTROL_TEST_RANK=wait")
	fatal.If(t, zero.Start())
	defer zero.Wait()
	defer zero.Process.Kill()
	w.Rank, w.LocalRank = 1, 1
	s, err := Enter(t.Context(), w, "", Options{})
	fatal.If(t, err)
	defer s.Close()
	asked := make(chan struct{}, 1000)
	s.Watch(func() rank.Status {
		asked <- struct{}{}
		return rank.Status{Phase: "pull", Step: 12}
	})
	<-asked
	<-asked // the first one was kept
	zero.Process.Kill()
	err = s.Fail(errors.New("tcp: rank 0: connection reset"), 0)
	want := "rank 0, which hosts the coordinator, is gone (lost while rank 1 was in phase pull, step 12)"
	var v *rank.Verdict
	if !errors.As(err, &v) || v.Kind != rank.Gone || v.Rank != 0 || err.Error() != want || s.Err() != err {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestHostWaitsForAll: Done of rank 0 returns when all ranks are done or have failed.
func TestHostWaitsForAll(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	zeroDone := make(chan error, 1)
	all(2, func(r int) error {
		s, err := Enter(t.Context(), mpiWorld(dir, r, 2), "", Options{})
		if err != nil {
			t.Error(err)
			return err
		}
		defer s.Close()
		if r == 0 {
			zeroDone <- s.Done(nil)
			return nil
		}
		select {
		case err := <-zeroDone:
			t.Errorf("rank 0 was done before rank 1: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		s.Fail(errors.New("late trouble"), -1)
		return nil
	})
	if err := <-zeroDone; err == nil || !strings.Contains(err.Error(), "late trouble") {
		t.Error(err)
	}
}

// rankProgram is the program of the test binary as a rank of mpirun.
func rankProgram() int {
	w, found, err := rank.FromEnv(os.Getenv)
	if err != nil || !found {
		fmt.Println("no rank:", found, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient.Longest)
	defer cancel()
	s, err := Enter(ctx, w, fmt.Sprint("addr", w.Rank), Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	switch os.Getenv("CONTROL_TEST_RANK") {
	case "wait":
		<-s.Aborted()
		return 2
	case "busy":
		busy(s)
	}
	fmt.Printf("rank %d of %d by %s: %s\n", w.Rank, w.Size, w.By, strings.Join(s.Roster(), " "))
	if err := s.Done(nil); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestMPI starts the test binary as the ranks of the installed MPI launchers.
func TestMPI(t *testing.T) {
	for _, c := range []struct {
		by   string
		line []string
	}{
		{"openmpi", []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "3"}},
		{"mpich", []string{"mpiexec.hydra", "-np", "3"}},
	} {
		t.Run(c.by, func(t *testing.T) {
			if _, err := exec.LookPath(c.line[0]); err != nil {
				t.Skip("not installed")
			}
			dir := t.TempDir()
			fatal.If(t, os.Chmod(dir, 0o700))
			cmd := exec.CommandContext(t.Context(), c.line[0], append(c.line[1:], os.Args[0])...)
			cmd.Env = append(os.Environ(), "CONTROL_TEST_RANK=work", "WDLRUN_RENDEZVOUS="+dir)
			out, err := cmd.CombinedOutput()
			for r := range 3 {
				if want := fmt.Sprintf("rank %d of 3 by %s: addr0 addr1 addr2\n", r, c.by); err != nil || !strings.Contains(string(out), want) {
					t.Fatalf("%v\n%s", err, out)
				}
			}
		})
	}
}

// TestWaitingIsReported: a rank whose variables are left over in a shell says at once what it waits for, and
// one that joins in time says nothing.
func TestWaitingIsReported(t *testing.T) {
	for r := range 2 {
		dir := t.TempDir()
		fatal.If(t, os.Chmod(dir, 0o700))
		w := mpiWorld(dir, r, 2)
		w.By, w.Named = "openmpi", "OMPI_COMM_WORLD_RANK=1"
		var mu sync.Mutex
		var lines []string
		opts := Options{Timeout: time.Second, Word: func(line string) { mu.Lock(); lines = append(lines, line); mu.Unlock() }}
		if _, err := Enter(t.Context(), w, "", opts); err == nil {
			t.Error("a rank joined alone")
		}
		want := fmt.Sprintf("rank %d of 2 waits for the others to join, for up to 1s; by the variables of openmpi, this is rank %[1]d of 2 (OMPI_COMM_WORLD_RANK=1): if nothing starts the others, set WDLRUN_SIZE=1 to train alone", r)
		mu.Lock()
		if !slices.Contains(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
		mu.Unlock()
	}
	_, stop := whileWaiting(t.Context(), rank.World{Size: 2}, Options{Timeout: time.Hour, Word: func(line string) { t.Error(line) }})
	stop()
}

// TestLeftOverVariables: a rank whose launcher starts two ranks on this host, and of whose job no other process
// exists, does not wait for the timeout.
func TestLeftOverVariables(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the variables of other processes are not known")
	}
	dir := t.TempDir()
	fatal.If(t, os.Chmod(dir, 0o700))
	for r := range 2 {
		vars := map[string]string{"RANK": fmt.Sprint(r), "LOCAL_RANK": fmt.Sprint(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "left-over", "MASTER_PORT": fmt.Sprint(os.Getpid()), "WDLRUN_RENDEZVOUS": dir}
		w, _, err := rank.FromEnv(func(name string) string { return vars[name] })
		fatal.If(t, err)
		want := fmt.Sprintf(`by the variables of torchrun, this is rank %d of 2 (RANK="%[1]d", WORLD_SIZE="2"), but no process of another rank is on this host`, r)
		patient.Try(t, 2*time.Second, func(timeout time.Duration) error {
			if _, err := Enter(t.Context(), w, "", Options{Timeout: timeout}); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got  %w\nwant %s", err, want)
			}
			return nil
		})
	}
}
