// Package rank determines which rank of its job a process is, how the ranks of a job find
// each other, and which of them are alive.
//
// # World
//
// FromEnv reads the World of a process from the environment that its launcher set. A table
// in launchers.go has the launchers that it knows, from the inside out: torchrun and MPI run
// inside Slurm steps and pods, not the other way round. The innermost one is used. It is an
// error if an outer one contradicts it.
//
// A process that none of them started is a world of one rank. It is an error if other
// variables show that it is one of several, for example PMIX_RANK, whose number of ranks is
// not in the environment. WDLRUN_SIZE=1 without WDLRUN_RANK declares a process alone.
//
// # Variables
//
// `wdlrun -np 4 ./program` sets these variables for every rank. Users and other launchers
// may set them too. Each takes precedence over the variables of another launcher:
//
//	WDLRUN_RANK         0 … size−1
//	WDLRUN_SIZE         number of ranks of the job
//	WDLRUN_LOCAL_RANK   0 … local size−1 among the ranks of this host (default 0)
//	WDLRUN_LOCAL_SIZE   number of ranks on this host (default 1)
//	WDLRUN_GENERATION   which formation of the group this is (default 0)
//	WDLRUN_COORDINATOR  host:port of the control plane
//	WDLRUN_KEY          the job's key, 64 hexadecimal digits, secret
//	WDLRUN_JOB          a name of the job, the same for all its ranks
//	WDLRUN_LAUNCHER     process id of the wdlrun that hosts the control plane;
//	                    absent when rank 0 has to host it
//	WDLRUN_RENDEZVOUS   a directory of the user, for jobs that wdlrun did not
//	                    start; shared by all hosts of the job
//	WDLRUN_IP           address of this host at which other ranks reach it
//	WDLRUN_HOST         name of this host in messages (default its hostname)
//	WDLRUN_TRANSPORT    shm, tcp or auto, as -transport
//	WDLRUN_ENCRYPT      true: encrypt TCP connections, as -encrypt
//	WDLRUN_STREAMS      TCP connections between two ranks, as -streams
//	WDLRUN_PORTS        ports at which ranks listen, as -ports
//
// The launcher sets the last four if the flags are given. All ranks must have the
// same values. See Links.
//
// # Meeting
//
// Ranks that wdlrun started get the coordinator's address and the key from it. In other
// jobs, rank 0 hosts the coordinator and passes address and key to the others in a file
// (see Meeting). No file is needed if WDLRUN_COORDINATOR and WDLRUN_KEY are set. Every
// link proves the Key.
//
// # Group
//
// Group is the state machine that forms the group, watches its ranks and, when it fails,
// finds the first cause. It has no clock, no I/O and no goroutine. Package
// internal/control drives it over gRPC.
//
// Values may be used by one goroutine at a time. Functions return errors for bad variables
// and files. They do not panic.
package rank

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// MaxSize is the maximum number of ranks of a job.
const MaxSize = 1 << 16

// World is the place of this process in its job.
type World struct {
	Rank, Size           int
	LocalRank, LocalSize int    // among the ranks of this host
	Host                 string // name of this host
	Generation           int    // formation of the group, from 0
	By                   string // launcher that started the rank; "": none
	Named                string // the variables that gave Rank and Size, with their values, for messages
	Job                  string // name of the job, the same on all ranks; "": none
	Coordinator          string // host:port of the control plane, or ""
	Launched             bool   // the launcher hosts the coordinator, not rank 0
	Key                  Key    // the job's key; zero: not known yet
	Rendezvous           string // directory of the meeting file; "": the user's directory in the temporary one
	IP                   string // address of this host for other ranks; "": choose one

	together bool // the launcher has said how many ranks of this host it starts, all at once
}

// Validate returns an error if two fields of w contradict each other.
func (w World) Validate() error {
	switch {
	case w.Size < 1 || w.Size > MaxSize:
		return fmt.Errorf("rank: world size %d is not within 1 … %d", w.Size, MaxSize)
	case w.Rank < 0 || w.Rank >= w.Size:
		return fmt.Errorf("rank: rank %d is not within 0 … %d of a world of size %d", w.Rank, w.Size-1, w.Size)
	case w.LocalSize < 1 || w.LocalSize > w.Size:
		return fmt.Errorf("rank: local size %d is not within 1 … %d, the world size", w.LocalSize, w.Size)
	case w.LocalRank < 0 || w.LocalRank >= w.LocalSize:
		return fmt.Errorf("rank: local rank %d is not within 0 … %d of a local size of %d", w.LocalRank, w.LocalSize-1, w.LocalSize)
	case w.Generation < 0:
		return fmt.Errorf("rank: generation %d is negative", w.Generation)
	}
	return nil
}

// Variables returns the names of the variables that Env may set. A launcher removes
// them from the environment that it passes on.
func Variables() []string {
	return []string{"WDLRUN_RANK", "WDLRUN_SIZE", "WDLRUN_LOCAL_RANK", "WDLRUN_LOCAL_SIZE", "WDLRUN_GENERATION",
		"WDLRUN_COORDINATOR", "WDLRUN_KEY", "WDLRUN_JOB", "WDLRUN_LAUNCHER", "WDLRUN_RENDEZVOUS", "WDLRUN_IP", "WDLRUN_HOST"}
}

// Env returns the variables that FromEnv reads, for a process to be started.
func (w World) Env() []string {
	env := []string{
		"WDLRUN_RANK=" + strconv.Itoa(w.Rank),
		"WDLRUN_SIZE=" + strconv.Itoa(w.Size),
		"WDLRUN_LOCAL_RANK=" + strconv.Itoa(w.LocalRank),
		"WDLRUN_LOCAL_SIZE=" + strconv.Itoa(w.LocalSize),
		"WDLRUN_GENERATION=" + strconv.Itoa(w.Generation),
	}
	add := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	add("WDLRUN_COORDINATOR", w.Coordinator)
	add("WDLRUN_JOB", w.Job)
	add("WDLRUN_RENDEZVOUS", w.Rendezvous)
	add("WDLRUN_IP", w.IP)
	add("WDLRUN_HOST", w.Host)
	if w.Key != (Key{}) {
		add("WDLRUN_KEY", w.Key.Hex())
	}
	if w.Launched {
		add("WDLRUN_LAUNCHER", strconv.Itoa(os.Getpid()))
	}
	return env
}

// oneHost reports whether all ranks of the job are on this host.
func (w World) oneHost() bool { return w.LocalSize == w.Size }

// ListenIP returns the address on which this rank listens for its peers: w.IP if it is
// set, the loopback address if all ranks are on this host or the coordinator has a
// loopback address, and otherwise the first address of this host that others can reach.
func (w World) ListenIP() (string, error) {
	if w.IP != "" {
		return w.IP, nil
	}
	if w.oneHost() {
		return "127.0.0.1", nil
	}
	if host, _, err := net.SplitHostPort(w.Coordinator); err == nil {
		if host == "localhost" {
			return "127.0.0.1", nil
		}
		if ip := net.ParseIP(host); ip.IsLoopback() {
			return ip.String(), nil
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("rank: addresses of host %s: %w; set WDLRUN_IP to the one other ranks reach it at", w.Host, err)
	}
	if ip := outward(addrs); ip != "" {
		return ip, nil
	}
	return "", fmt.Errorf("rank: host %s has no address that other hosts can reach; set WDLRUN_IP to one", w.Host)
}

// outward returns the first IPv4 address that is neither loopback nor link-local, or the
// first such IPv6 address.
func outward(addrs []net.Addr) (ip string) {
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP.String()
		}
		if ip == "" {
			ip = n.IP.String()
		}
	}
	return ip
}
