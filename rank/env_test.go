package rank

import (
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
)

const testKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func variables(text string) func(string) string {
	return func(name string) string {
		for _, v := range strings.Fields(text) {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// The variables of OpenMPI 4.1 and Hydra 4.0 were printed by `mpirun env`. The others are from
// the manuals of Slurm, torchrun and Kubernetes.
var engineTests = []struct {
	name string
	vars string
	want World
}{
	{"alone", "HOME=/root RANK=3 SLURM_JOB_ID=7",
		World{Size: 1, LocalSize: 1}},
	{"wdlrun", "WDLRUN_RANK=2 WDLRUN_SIZE=4 WDLRUN_LOCAL_RANK=2 WDLRUN_LOCAL_SIZE=4 WDLRUN_GENERATION=3 WDLRUN_COORDINATOR=127.0.0.1:5 WDLRUN_LAUNCHER=9 WDLRUN_JOB=j WDLRUN_KEY=" + testKey,
		World{Rank: 2, Size: 4, LocalRank: 2, LocalSize: 4, Generation: 3, By: "wdlrun", Job: "j", Coordinator: "127.0.0.1:5", Launched: true, Key: mustKey(testKey)}},
	{"wdlrun by hand", "WDLRUN_RANK=1 WDLRUN_SIZE=2 WDLRUN_JOB=j WDLRUN_RENDEZVOUS=/shared WDLRUN_IP=10.0.0.7",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "wdlrun", Job: "j", Rendezvous: "/shared", IP: "10.0.0.7"}},
	{"openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1998389249 PMIX_RANK=1 OMPI_MCA_ess_base_jobid=1998389249",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "openmpi", Job: "openmpi-1998389249"}},
	{"openmpi within slurm", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=7",
		World{Rank: 1, Size: 2, LocalSize: 1, By: "openmpi", Job: "openmpi-7"}},
	{"mpich", "PMI_FD=6 PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2",
		World{Size: 2, LocalSize: 2, By: "mpich", Job: "mpich-4711"}},
	{"mpich on several hosts", "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, By: "mpich"}},
	{"slurm", "SLURM_PROCID=6 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=0 SLURM_STEP_ID=1 SLURM_JOB_ID=55 SLURM_STEP_TASKS_PER_NODE=2(x3),1 SLURM_NODEID=3",
		World{Rank: 6, Size: 7, LocalSize: 1, By: "slurm", Job: "slurm-55-1"}},
	{"slurm with pmi2", "PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "slurm", Job: "slurm-5-0"}},
	{"slurm batch script", "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_JOB_ID=5",
		World{Size: 1, LocalSize: 1}},
	{"slurm batch step", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967291 SLURM_JOB_ID=5",
		World{Size: 1, LocalSize: 1}},
	{"torchrun", "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=2",
		World{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Generation: 2, By: "torchrun", Job: "torchrun-none-h0-29500"}},
	{"torchrun within slurm", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=5 RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
		World{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, By: "torchrun", Job: "torchrun"}},
	{"indexed job", "JOB_COMPLETION_INDEX=2 WDLRUN_SIZE=3 WDLRUN_COORDINATOR=job-0.svc:29400 WDLRUN_KEY=" + testKey,
		World{Rank: 2, Size: 3, LocalSize: 1, By: "indexed job", Coordinator: "job-0.svc:29400", Key: mustKey(testKey)}},
	{"indexed job of pods with two ranks", "JOB_COMPLETION_INDEX=2 WDLRUN_SIZE=6 WDLRUN_LOCAL_RANK=1 WDLRUN_LOCAL_SIZE=2 WDLRUN_COORDINATOR=job-0.svc:29400 WDLRUN_KEY=" + testKey,
		World{Rank: 5, Size: 6, LocalRank: 1, LocalSize: 2, By: "indexed job", Coordinator: "job-0.svc:29400", Key: mustKey(testKey)}},
	{"indexed job of separate experiments", "JOB_COMPLETION_INDEX=2",
		World{Size: 1, LocalSize: 1}},
	{"own coordinator under openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=1 WDLRUN_JOB=mine WDLRUN_COORDINATOR=[::1]:77 WDLRUN_KEY=" + testKey,
		World{Rank: 1, Size: 2, LocalSize: 1, By: "openmpi", Job: "mine", Coordinator: "[::1]:77", Key: mustKey(testKey)}},
}

func mustKey(s string) Key {
	k, err := ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

// TestEngines: FromEnv recognises the variables of each launcher.
func TestEngines(t *testing.T) {
	for _, c := range engineTests {
		c.want.Host = "here"
		w, found, err := fromEnv(variables(c.vars), "here", 4711)
		if err != nil || w != c.want || found != (c.want.By != "") {
			t.Errorf("%s:\n got  %+v %v %v\n want %+v", c.name, w, found, err, c.want)
		}
		if err == nil && w.Validate() != nil {
			t.Errorf("%s: %v", c.name, w.Validate())
		}
	}
}

// TestBadEnvironment: an invalid variable gives an error that names it.
func TestBadEnvironment(t *testing.T) {
	for _, c := range []struct{ vars, want string }{
		{"WDLRUN_RANK=0", "rank: environment of wdlrun: WDLRUN_SIZE is not set"},
		{"WDLRUN_SIZE=2", "rank: environment of wdlrun: WDLRUN_RANK is not set"},
		{"WDLRUN_RANK=x WDLRUN_SIZE=2", `WDLRUN_RANK="x" is not a whole number`},
		{"WDLRUN_RANK=-1 WDLRUN_SIZE=2", `WDLRUN_RANK="-1" is not within 0 … 65536`},
		{"WDLRUN_RANK=2 WDLRUN_SIZE=2", `WDLRUN_RANK="2" is not below WDLRUN_SIZE="2"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=0", `WDLRUN_SIZE="0": there is at least one rank`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=99999999999999999999", `WDLRUN_SIZE="99999999999999999999" is not a whole number`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LOCAL_SIZE=3", `WDLRUN_LOCAL_SIZE="3" is above WDLRUN_SIZE="2"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LOCAL_RANK=1 WDLRUN_LOCAL_SIZE=1", `WDLRUN_LOCAL_RANK="1" is not below WDLRUN_LOCAL_SIZE="1"`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_LAUNCHER=4", "WDLRUN_COORDINATOR and WDLRUN_KEY must be"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here", `WDLRUN_COORDINATOR="here" is not host:port`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here:99999", `is not host:port`},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_COORDINATOR=here:1", "WDLRUN_KEY is not"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_KEY=abc", "3 characters where 64 hexadecimal digits"},
		{"WDLRUN_RANK=0 WDLRUN_SIZE=2 WDLRUN_IP=h", `WDLRUN_IP="h" is not an IP address`},
		{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not set"},
		{"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=2", `OMPI_COMM_WORLD_RANK="5" is not below OMPI_COMM_WORLD_SIZE="2"`},
		{"PMI_RANK=1 PMI_SIZE=1.5 MPI_LOCALRANKID=1", `PMI_SIZE="1.5" is not a whole number`},
		{"RANK=1 WORLD_SIZE=two LOCAL_RANK=1", `WORLD_SIZE="two" is not a whole number`},
		{"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0", `SLURM_PROCID="3" is not below SLURM_STEP_NUM_TASKS="2"`},
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2(x SLURM_NODEID=0", `SLURM_STEP_TASKS_PER_NODE="2(x" has no entry`},
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=1", `has no entry for SLURM_NODEID="1"`},
		{"JOB_COMPLETION_INDEX=3 WDLRUN_SIZE=3", `JOB_COMPLETION_INDEX="3" is not below WDLRUN_SIZE="3"`},
	} {
		w, found, err := fromEnv(variables(c.vars), "here", 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got  %v\n want %s", c.vars, err, c.want)
		}
		if found || w != (World{}) {
			t.Errorf("%s: the error comes with a world: %+v", c.vars, w)
		}
	}
}

// TestBadKeyIsNotRepeated: the error about an invalid key does not contain the key.
func TestBadKeyIsNotRepeated(t *testing.T) {
	almost := testKey[:63] + "g"
	_, _, err := fromEnv(variables("WDLRUN_RANK=0 WDLRUN_SIZE=1 WDLRUN_KEY="+almost), "here", 1)
	if err == nil || strings.Contains(err.Error(), almost[:16]) {
		t.Errorf("got %v", err)
	}
}

// TestEnvIsReadBack: FromEnv reads the World that Env has written, and Variables names all
// variables.
func TestEnvIsReadBack(t *testing.T) {
	w := World{Rank: 2, Size: 4, LocalRank: 2, LocalSize: 4, Host: "here", Generation: 3, By: "wdlrun", Job: "j",
		Coordinator: "127.0.0.1:5", Launched: true, Key: NewKey(), Rendezvous: "/d", IP: "127.0.0.1"}
	if n := reflect.TypeFor[World]().NumField(); n != 13 {
		t.Errorf("World has %d fields, this test sets 13", n)
	}
	known := strings.Join(Variables(), " ") + " "
	for _, v := range w.Env() {
		if name, _, _ := strings.Cut(v, "="); !strings.Contains(known, name+" ") {
			t.Errorf("Variables does not name %s", name)
		}
	}
	if len(w.Env()) != len(Variables()) {
		t.Errorf("%d variables are set, Variables names %d", len(w.Env()), len(Variables()))
	}
	got, found, err := fromEnv(variables(strings.Join(w.Env(), " ")), "here", 1)
	if err != nil || !found || got != w {
		t.Errorf("got  %+v %v\nwant %+v", got, err, w)
	}
}

// TestValidate: Validate rejects inconsistent worlds.
func TestValidate(t *testing.T) {
	good := World{Rank: 1, Size: 2, LocalSize: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, w := range []World{{}, {Size: MaxSize + 1}, {Rank: 2, Size: 2, LocalSize: 1}, {Rank: -1, Size: 2, LocalSize: 1},
		{Size: 2}, {Size: 2, LocalSize: 3}, {Size: 2, LocalSize: 1, LocalRank: 1}, {Size: 1, LocalSize: 1, Generation: -1}} {
		if w.Validate() == nil {
			t.Errorf("%+v is reported as valid", w)
		}
	}
}

// TestListenIP compares the address at which a rank listens with the expected one.
func TestListenIP(t *testing.T) {
	for _, c := range []struct {
		w    World
		want string
	}{
		{World{Size: 2, LocalSize: 2}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, IP: "10.1.2.3"}, "10.1.2.3"},
		// On one host, the coordinator may have a loopback name or address.
		{World{Size: 2, LocalSize: 1, Coordinator: "localhost:7070"}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, Coordinator: "127.0.0.1:7070"}, "127.0.0.1"},
		{World{Size: 2, LocalSize: 1, Coordinator: "[::1]:7070"}, "::1"},
	} {
		if ip, err := c.w.ListenIP(); err != nil || ip != c.want {
			t.Errorf("%+v: %s %v, want %s", c.w, ip, err, c.want)
		}
	}
	var addrs []net.Addr
	for _, s := range []string{"127.0.0.1/8", "::1/128", "fe80::1/64", "fd00::2/64", "192.0.2.2/24"} {
		ip, n, _ := net.ParseCIDR(s)
		n.IP = ip
		addrs = append(addrs, n)
	}
	if got := outward(addrs); got != "192.0.2.2" {
		t.Errorf("got %s", got)
	}
	if got := outward(addrs[:4]); got != "fd00::2" {
		t.Errorf("got %s", got)
	}
	if got := outward(addrs[:3]); got != "" {
		t.Errorf("got %s", got)
	}
}

func ExampleFromEnv() {
	env := map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "42"}
	w, found, err := FromEnv(func(name string) string { return env[name] }) // a program passes os.Getenv
	fmt.Println(w.Rank, w.Size, w.By, w.Job, found, err)
	// Output: 1 2 openmpi openmpi-42 true <nil>
}
