package cores

import (
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// bound binds the thread of this goroutine to one core until the test ends. It returns the core
// and the set of cores that the thread could use before. The thread ends with the test.
func bound(t *testing.T) (core int, all unix.CPUSet) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: no other goroutine may use a bound thread
	fatal.If(t, unix.SchedGetaffinity(0, &all))
	if all.Count() < 2 {
		t.Skip("this process may run on one core only")
	}
	for !all.IsSet(core) {
		core++
	}
	bind(t, core)
	return core, all
}

func bind(t testing.TB, core int) {
	t.Helper()
	var one unix.CPUSet
	one.Set(core)
	fatal.If(t, unix.SchedSetaffinity(0, &one))
}

// TestProcessesBoundToCoresOfTheirOwn starts a process bound to one core and binds this thread
// to another: together they have two cores, alone each has one.
func TestProcessesBoundToCoresOfTheirOwn(t *testing.T) {
	first, all := bound(t)
	other := exec.Command("sleep", "60") // it inherits the cores of this thread
	fatal.If(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	if n := Count([]int{other.Process.Pid}); n != 1 {
		t.Errorf("two processes on core %d: %d cores, want 1", first, n)
	}
	second := first + 1
	for !all.IsSet(second) {
		second++
	}
	bind(t, second)
	if n := Count(nil); n != 1 {
		t.Errorf("this thread, bound to core %d: %d cores, want 1", second, n)
	}
	if n := Count([]int{other.Process.Pid}); n != 2 {
		t.Errorf("processes on cores %d and %d: %d cores, want 2", first, second, n)
	}
	if n := Count([]int{1 << 30}); n != 1 {
		t.Errorf("with a process that cannot be inspected: %d cores", n)
	}
}
