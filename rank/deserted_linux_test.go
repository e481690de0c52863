package rank

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestDeserted: variables that are left over are told from those of a launcher whose processes exist.
func TestDeserted(t *testing.T) {
	const (
		torch = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 LOCAL_RANK="
		hydra = "PMI_SIZE=2 MPI_LOCALNRANKS=2 PMI_RANK=0 MPI_LOCALRANKID=0"
		pod   = "WDLRUN_SIZE=2 JOB_COMPLETION_INDEX=0 WDLRUN_LOCAL_SIZE=2 WDLRUN_LOCAL_RANK=0"
	)
	zero, one := torch+"0 RANK=0", torch+"1 RANK=1"
	for _, c := range []struct {
		name, own string
		others    map[int]string // by process; "hidden": not readable
		want      bool
	}{
		{"a shell", zero, map[int]string{1: "", 7: zero, 8: zero}, true},
		{"nothing else", one, map[int]string{1: "hidden", 7: ""}, true},
		{"the other rank", zero, map[int]string{1: "", 7: "", 9: one}, false},
		{"its wrapper", one, map[int]string{1: "hidden", 7: "", 9: zero + " X=1"}, false},
		{"another job", zero, map[int]string{7: "", 9: strings.Replace(one, "MASTER_PORT=1", "MASTER_PORT=2", 1)}, true},
		{"a larger job", zero, map[int]string{7: "", 9: strings.ReplaceAll(one, "SIZE=2", "SIZE=4")}, true},
		{"a hidden parent", zero, map[int]string{1: "", 7: "hidden"}, false},
		{"a container", zero, map[int]string{1: zero, 7: zero}, false},
		{"Hydra", hydra, map[int]string{7: ""}, true},
		{"Hydra, the other rank", hydra, map[int]string{7: "", 9: strings.NewReplacer("RANK=0", "RANK=1", "ID=0", "ID=1").Replace(hydra)}, false},
		{"started by hand", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", map[int]string{7: ""}, false},
		{"wdlrun's variables", "WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LOCAL_SIZE=2", map[int]string{7: ""}, false},
		{"one rank per host", torch[:13] + " LOCAL_WORLD_SIZE=1 LOCAL_RANK=0 RANK=0", map[int]string{7: ""}, false},
		{"containers of a pod", pod, map[int]string{7: ""}, false},
	} {
		w, found, err := fromEnv(variables(c.own), "here", 7)
		fatal.If(t, err)
		var pids []int
		for pid := range c.others {
			pids = append(pids, pid)
		}
		got := w.together && w.LocalSize > 1 && w.deserted(7, pids, func(pid int) (string, error) {
			if c.others[pid] == "hidden" {
				return "", errors.New("permission denied")
			}
			return strings.ReplaceAll(c.others[pid], " ", "\x00") + "\x00", nil
		})
		if !found || got != c.want {
			t.Errorf("%s: %t, want %t: %+v", c.name, got, c.want, w)
		}
	}
}

// TestDesertedLooksAtProcesses starts a process with the variables of the other rank, and ends it.
func TestDesertedLooksAtProcesses(t *testing.T) {
	const job = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=deserted MASTER_PORT=1 TORCHELASTIC_RUN_ID=deserted"
	w, _, err := FromEnv(variables(job + " RANK=0 LOCAL_RANK=0"))
	fatal.If(t, err)
	other := exec.Command("cat")
	other.Env = append(os.Environ(), strings.Fields(job+" RANK=1 LOCAL_RANK=1")...)
	in, err := other.StdinPipe()
	fatal.If(t, err)
	out, err := other.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, other.Start())
	in.Write([]byte("x"))
	if _, err := out.Read(make([]byte, 1)); err != nil || w.Deserted() { // it runs cat
		t.Errorf("the process of rank 1 is not found: %v", err)
	}
	in.Close()
	fatal.If(t, other.Wait())
	if !w.Deserted() {
		t.Error("rank 1 has ended, and a process of it is found")
	}
}
