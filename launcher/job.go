package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/rank"
)

// Job is a program and the placement of its ranks. The zero value of every field but Plan
// and Command is the default.
type Job struct {
	Plan    Plan
	Command []string // program and arguments
	Dir     string   // working directory, "" for the launcher's
	Env     []string // environment, nil for the launcher's

	front *net.TCPListener // where the coordinators of all generations listen

	Stdin          io.Reader // of rank 0, nil for none; the other ranks have none
	Stdout, Stderr io.Writer // nil discards
	Merged         bool      // no "[rank] " before the lines
	Quiet          bool      // no progress

	// Guard is the command of a process that calls Guard(os.Stdin), usually the
	// launcher's own executable with a special argument. Without it, processes that
	// ranks have started may outlive a killed launcher.
	Guard []string

	Name       string        // of the job, for the ranks
	Generation int           // which formation of the group this is
	Version    string        // of the ranks' program, which must join the group; "" for any program
	Timeout    time.Duration // of the group, default rank.GroupConfig's; not negative
	Grace      time.Duration // between SIGTERM and SIGKILL, default 3 s
	Listen     string        // address of the coordinator, default a free port of 127.0.0.1

	// Remote starts ranks on other hosts; nil if only this host can be used.
	Remote *Remote

	// Suspends makes Ctrl-Z (SIGTSTP) stop the ranks together with the launcher, and
	// SIGCONT resume them. At most one job of a process should set it.
	Suspends bool

	// Restarts is how often the job is restarted after failures without a new training
	// step. When rank 0 reports a step that was not reached before, the count starts
	// again. 0 means never, as with mpirun.
	Restarts int

	// RestartWait bounds the time for which a restart waits for a host that does not answer.
	// Attempts do not count as Restarts. 0 means 10 minutes.
	RestartWait time.Duration

	// MinRanks is the minimum number of ranks of a restarted job. If it is below the number
	// of ranks in Plan, a failed rank is left out; otherwise it is replaced. 0 means all.
	MinRanks int

	// Hosts are the hosts with their slots from which Plan was made. The ranks of a host that
	// is lost repeatedly move to free slots of other hosts.
	Hosts []Host

	// Heals means that the surviving ranks have copies of the state of a lost rank. They
	// keep their processes and join the next generation at the same coordinator
	// (member.Rejoin). Only ranks that ended are restarted, which counts as one of
	// Restarts. If this is not possible, all ranks are restarted.
	Heals bool

	// Judged is called with each verdict at once, while ranks still run, and a writer for
	// whole lines about it. It delays the end of the ranks by at most 3 s.
	Judged func(v *rank.Verdict, w io.Writer)

	// Saves must be set if interrupted ranks save their work before they end. After the
	// first step they get up to 15 minutes for that, instead of Grace. Saves is called if
	// they take longer than Grace, with the last status of rank 0 and a writer for whole
	// lines.
	Saves func(s rank.Status, w io.Writer)

	// Word is called with a warning about what may become a verdict, such as a rank that has
	// sent no heartbeat for a while, and a writer for whole lines.
	Word func(line string, w io.Writer)

	// Again is called with each failure after which the job is restarted, and returns the
	// command to start. If Again is nil, Command is started. If a host has left in order, the
	// failure has no verdict, and Again returns nil if the ranks have done all of their work.
	Again func(Failure) []string

	Orders <-chan control.Order // passed on to the ranks

	// Changes are carried out one after the other. Nil: the hosts of the job do not change.
	Changes <-chan Change

	// Changed is called before each generation that starts because of a change, and returns
	// its command. Nil means that the ranks have ended because their work is done. It must
	// be set if Changes is, and must not return nil if Turn.Failed is set.
	Changed func(Turn) []string

	Host control.Host // receives the events of the group
}

// Outcome is how a job ended.
type Outcome struct {
	Code    int           // exit code for the launcher: of the first failure, or 0
	Verdict *rank.Verdict // why the group failed, nil if it did not
	Result  []byte        // what rank 0 passed to Session.Done
	Status  rank.Status   // the last status of rank 0
	Reports []Report      // stacks and traces of the ranks, after a verdict
	Elapsed time.Duration

	Size     int    // ranks of the last generation
	Restarts int    // number of restarts
	Heals    int    // how often the surviving ranks continued from memory
	GaveUp   string // why the job was not restarted; "" if restarts are not allowed
}

func (job *Job) check() error {
	if len(job.Command) == 0 || job.Command[0] == "" {
		return errors.New("launcher: run: no program is given")
	}
	if len(job.Plan.Ranks) == 0 {
		return errors.New("launcher: run: the plan has no ranks")
	}
	if job.Timeout != 0 {
		if err := rank.CheckTimeout(job.Timeout); err != nil {
			return fmt.Errorf("launcher: run: %w", err)
		}
	}
	if job.Restarts < 0 {
		return fmt.Errorf("launcher: run: %d restarts: must not be negative", job.Restarts)
	}
	if job.RestartWait < 0 {
		return fmt.Errorf("launcher: run: restart wait %s: must not be negative", job.RestartWait)
	}
	if n := len(job.Plan.Ranks); job.MinRanks < 0 || job.MinRanks > n {
		return fmt.Errorf("launcher: run: at least %d ranks of %d: must be within 1 … %d", job.MinRanks, n, n)
	}
	if job.Grace < 0 {
		return fmt.Errorf("launcher: run: grace %s: must not be negative", job.Grace)
	}
	if h := job.Plan.Remote(); h != "" {
		if job.Remote == nil {
			return fmt.Errorf("launcher: run: host %s: the job does not say how ranks are started on other hosts", h)
		}
		return nil // every host checks the directory and the program
	}
	if job.Dir != "" {
		if _, err := os.Stat(job.Dir); err != nil {
			return fmt.Errorf("launcher: run: working directory: %w", err)
		}
		return nil // a relative path of the program starts there
	}
	path, err := exec.LookPath(job.Command[0])
	if err != nil {
		return fmt.Errorf("launcher: run: %w", explain(err))
	}
	if err := hosts.CheckLoader(path); err != nil {
		return fmt.Errorf("launcher: run: %w", err)
	}
	return nil
}

// startCode is the exit code of a program that could not be started, as shells
// have it: 127 if it is not there, 126 if it is but cannot be run.
func startCode(err error) int {
	var there *startError
	switch {
	case errors.As(err, &there):
		return there.code
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return 127
	case errors.Is(err, fs.ErrPermission), unrunnable(err):
		return 126
	}
	return 1
}

// unrunnable reports whether err means that the file is not a program.
func unrunnable(err error) bool {
	for _, e := range []error{syscall.EISDIR, syscall.ENOTDIR, syscall.ENOEXEC, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// run is a job that runs.
type run struct {
	job     Job
	begin   time.Time
	console *console
	relay   *relay
	server  *control.Server
	guard   *guard
	input   *input // of rank 0
	crew    crew
	remote  *remote // it, if there are several hosts
	key     rank.Key

	starting  sync.Mutex   // of pids and left while ranks are started
	left      int          // processes that have not ended
	exits     map[int]exit // of those that have, by rank
	own       map[int]bool // ended before the launcher sent any a signal to end
	pids      map[int]int  // process ids, by rank, of the latest processes
	ending    bool         // a request to end was sent to all ranks
	judged    bool         // Judged was called for the present group
	interrupt error        // why ctx ended, if it did before the group
	asked     time.Time    // when it ended
	spared    bool         // Saves was called

	of     *generations // nil: the job is not started again
	heals  int          // groups that surviving ranks have begun
	lost   []int        // ranks that must end before the next group begins
	killed time.Time    // when they should have ended
	fresh  []int        // ranks that were started for the present group
}

// listen opens the port of a job's coordinators, at a free one of this host without an
// address. It stays open for all generations: ranks that come early wait in its queue,
// and no other program can take the port between two of them.
func listen(addr string) (*net.TCPListener, error) {
	ln, err := net.Listen("tcp", cmp.Or(addr, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("launcher: run: coordinator: %w; without an address a free port is taken", err)
	}
	return ln.(*net.TCPListener), nil
}

// serve starts the coordinator of a generation.
func (r *run) serve() (*control.Server, error) {
	file, err := r.job.front.File() // a second descriptor of the socket, which the coordinator closes
	if err != nil {
		return nil, fmt.Errorf("launcher: run: coordinator: %w", err)
	}
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("launcher: run: coordinator: %w", err)
	}
	s, err := control.Serve(ln, control.Config{Key: r.key, Size: len(r.job.Plan.Ranks), Generation: r.job.Generation,
		Version: r.job.Version, Timeout: r.job.Timeout, Processes: true, Host: r.relay, Word: r.word})
	if err != nil {
		ln.Close()
	}
	return s, err
}

// word passes a warning of the coordinator on, without blocking it.
func (r *run) word(line string) {
	if r.job.Word != nil {
		go r.job.Word(line, lineWriter{r.console})
	}
}

// close ends everything but the ranks. If a process could not be ended its waiter stays.
func (r *run) close() {
	if r.left == 0 || r.remote != nil { // host processes kill what is left
		r.crew.close()
	}
	r.input.close()
	r.server.Close()
	r.guard.close()
	if r.relay.display != nil {
		r.relay.display.close()
	}
}

// startRank starts the process of a rank. Input is for the first process of rank 0. It may be
// called for ranks of several hosts at once.
func (r *run) startRank(p Placed) (err error) {
	o := order{placed: p, command: r.job.Command, dir: r.job.Dir, base: r.job.Env, world: r.world(p), out: [2]*lines{
		newLines(r.console, r.job.Stdout, p.Rank, !r.job.Merged),
		newLines(r.console, r.job.Stderr, p.Rank, !r.job.Merged),
	}}
	if p.Rank == 0 && r.input == nil {
		if r.input, err = newInput(r.job.Stdin, r.remote != nil); err != nil {
			return err
		}
		o.input = r.input
	}
	pid, err := r.crew.start(o)
	if err != nil {
		return err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	r.pids[p.Rank] = pid
	r.left++
	r.server.Started(p.Rank, r.hostOf(p), pid)
	return nil
}

// hostOf is the name of a rank's host in verdicts.
func (r *run) hostOf(p Placed) string {
	if r.remote != nil {
		return p.Host
	}
	return hostname()
}

func hostname() string {
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "localhost"
}

// world is how a rank is to see the job.
func (r *run) world(p Placed) rank.World {
	return rank.World{Rank: p.Rank, Size: len(r.job.Plan.Ranks), LocalRank: p.LocalRank, LocalSize: p.LocalSize,
		Generation: r.job.Generation, Job: r.job.Name, Coordinator: r.server.Addr(), Launched: true, Key: r.key}
}

// patience is how long ranks may take to end by themselves after the verdict:
// no time for programs that could not hear it.
func (r *run) patience() time.Duration {
	if r.relay.isFormed() && !r.job.Heals { // those that heal wait for the next generation
		return ownEnd
	}
	return 0
}

func (r *run) ended(e exit) {
	r.left--
	r.exits[e.rank] = e
	r.own[e.rank] = !r.ending
	if e.lost != nil {
		if e.rank == e.lost.ranks[0] {
			r.server.HostLost(e.lost.host, e.lost.ranks, e.why)
		}
		return
	}
	r.server.Exited(e.rank, e.code, e.signal, e.why)
}

// reap waits for the ends of killed processes.
func (r *run) reap() {
	late := time.After(reapTime)
	for r.left > 0 {
		select {
		case e := <-r.crew.ended():
			r.ended(e)
		case <-late:
			return
		}
	}
}

// interruptCode is the exit code of a job whose context has ended.
func interruptCode(cause error) int {
	if i, ok := cause.(Interrupted); ok {
		return i.Code()
	}
	return 1
}

// code is the exit code of the rank that the verdict names, or 1 if the launcher has ended
// that rank.
func (r *run) code(v *rank.Verdict) int {
	switch v.Kind {
	case rank.Killed:
		return 128 + v.Signal
	case rank.Exited:
		return v.Code
	}
	if e, ok := r.exits[v.Rank]; ok && r.own[v.Rank] && e.status() != 0 {
		return e.status()
	}
	return 1
}

// Failure is the end of a generation after which the job is restarted.
type Failure struct {
	Outcome
	Generation int              // the generation that failed
	Next       restart.Recovery // ranks to start again, and when
	Stderr     io.Writer        // for whole lines about it
}

// generations carries a job over failures. Each generation has its own processes, key and
// coordinator, so that no earlier generation can reach it.
type generations struct {
	job    Job
	policy *restart.Policy
	whole  Plan  // plan of the first generation
	places []int // by rank of the current generation: its index in whole
	begin  time.Time
	healed int
	failed *rank.Verdict     // verdict of the previous generation, if a rank reported its own error
	judged *restart.Recovery // decision on the current failure, if run has made it

	runDir    string // directory that rank 0 reported last
	leaving   []int  // ranks whose hosts asked them to end in this generation
	forgotten string // why the job cannot resume from memory; "": it can

	excluded []string // hosts that were lost again and again

	changes // of hosts
}

// Change asks a running job to continue on other hosts. The ranks write a checkpoint at the
// end of their step and end, and the next generation starts with the new plan. If it fails
// before its first step, the job returns to its previous hosts.
type Change struct {
	Add  []string // hosts, with the number of ranks to add, such as a:4; a host that is new to the job gets one without a number
	Drop []string // hosts, with the number of ranks to remove; a host without a number loses all

	// Done is called with the plan of the ranks that continue, or why the job continues on its
	// previous hosts or has ended.
	Done func(Plan, error)
}

// Turn describes the start of a generation on other hosts, as opposed to a restart.
type Turn struct {
	Outcome           // of the generation that ended
	Plan    Plan      // of the next one
	Failed  error     // why the job returns to its previous hosts; nil: it begins on other hosts
	Stderr  io.Writer // for whole lines about it
}

// changes carries out the changes that a job receives, one after the other.
type changes struct {
	calls chan func(*run) // run by the goroutine that watches the ranks, after their first step
	asked *transition     // the ranks received an order to end for it
	trial *transition     // the generation is the first after it, and has done no step yet
}

// transition is a change that the ranks carry out.
type transition struct {
	before, next Plan
	done         chan error // has room for one
}

// Remote is how ranks on other hosts are started. The zero value of every field but
// Self is the default.
type Remote struct {
	Self   string   // the launcher's executable, whose main calls RunHost for HostWord
	SSH    string   // the ssh client and its flags, default "ssh"
	Ship   string   // when executables are sent: auto, always or never
	Agents string   // the folder of this machine's agent, which starts host processes on hosts such as @a
	Slurm  bool     // srun starts host processes within the present allocation, in place of SSH
	Net    string   // the network between hosts: 10.0.0.0/8, eth1 or ^docker0, "" for the fastest that all reach
	Pass   []string // variables that the ranks get in addition to their host's, NAME=VALUE
}

// remote runs the ranks of a job on several hosts, with a host process on each.
type remote struct {
	forker
	job     Job
	console *console
	guard   *guard
	front   string // at which the coordinator listens
	exits   chan exit
	left    func(rank int) // reports that the host of a rank ends its ranks

	key rank.Key // of the attempts of hosts to reach each other

	hosts []*remoteHost
	of    map[string]*remoteHost // by name of the host
}

// remoteHost is the launcher's side of one host.
type remoteHost struct {
	name    string
	ranks   []int
	process *hosts.Process
	link    *hosts.Link
	ready   hosts.Message
	ip      string             // at which its ranks listen
	answers chan hosts.Message // to a start order
	sends   chan hosts.Message

	mu      sync.Mutex
	live    map[int]*remoteRank // ranks whose processes have not ended
	waiting map[int]bool        // ranks whose start has not been ordered
	lost    *loss               // of the host, nil while it is connected
	leaving bool
}

// remoteRank is a rank on another host.
type remoteRank struct {
	out  [2]*lines
	open sync.WaitGroup // outputs
}

// startError is an error in starting a program, with its exit code.
type startError struct {
	error
	code int
}

func (r *run) outcome() Outcome {
	o := Outcome{Elapsed: time.Since(r.begin), Verdict: r.server.Verdict(), Size: len(r.job.Plan.Ranks), Heals: r.heals}
	o.Result, o.Status, o.Reports = r.relay.got()
	if r.of != nil { // a generation that ends early has reported nothing yet
		r.of.runDir = cmp.Or(o.Status.RunDir, r.of.runDir)
		o.Status.RunDir = r.of.runDir
		r.of.leaving = r.relay.left()
	}
	switch {
	case r.interrupt != nil:
		o.Verdict = nil // it names a rank that the launcher has ended
		o.Code = interruptCode(r.interrupt)
	case o.Verdict != nil:
		o.Code = r.code(o.Verdict)
	}
	return o
}
