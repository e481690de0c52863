package rank

import (
	"errors"
	"fmt"
	"time"
)

// Member describes a rank when it joins.
type Member struct {
	Rank, Size, Generation int
	Version                string // version of its program
	Host                   string
	Pid                    int
	Addr                   string // address for other ranks
	Note                   string // for the other ranks, which interpret it
}

// GroupConfig holds the times and the size of a Group. The zero value of every field except
// Size is the default.
type GroupConfig struct {
	Size       int
	Generation int

	// Version is the version that every member must have. The ranks are then known to join, so
	// a group that no rank joins ends after Timeout. "" takes the version of the first to join,
	// and a program may never join.
	Version string

	// Timeout is how long a rank may make no progress, or not join after another has
	// joined. The default is 60 s, longer than any step or pause of a busy host.
	Timeout time.Duration

	// Silence is how long a rank may be without a heartbeat. Heartbeats are sent
	// concurrently with the work, so Silence only has to cover pauses of a busy host. It is
	// extended for a rank whose heartbeats came late before (silence.go). Default
	// SilentAfter, or Timeout if that is shorter.
	Silence time.Duration

	// Settle is how long signs are gathered after the first one. The default is 150 ms,
	// because a dead process shows on its peers' links before its parent is informed.
	Settle time.Duration

	// Processes means that the end of each rank's process is reported (Exited). The group
	// has then finished only when all processes have ended.
	Processes bool

	// Ends is how long, with Processes, the group waits for the end of a rank's process if
	// a lost connection is its only sign. Default 2 s, or Timeout if that is shorter. A
	// parent may be delayed for longer than Settle, and a process that is alive must not
	// delay the verdict for long.
	Ends time.Duration
}

// Act is what the driver of a Group must do.
type Act int

// The decisions of a Group.
const (
	Nothing Act = iota
	Form        // inform all ranks that the group is complete
	Condemn     // send all ranks the verdict and end them
	Finish      // all ranks have finished their work
	Tell        // warn of a possible failure
	Ask         // ask all ranks which messages they have begun (Traffic.Begun)
)

// Decision is the answer of a Group to an event.
type Decision struct {
	Act     Act
	Members []Member // with Form, by rank
	Verdict *Verdict // with Condemn
	Word    string   // with Tell: one line
}

// Group is the state machine of one group of ranks: which ranks have joined, which are
// alive, and what the first cause of a failure was. It has no clock, I/O or goroutine.
// Every event carries the time since the group began, which never decreases, and
// returns a Decision. Call Tick regularly, a few times in each Settle. If an event
// comes long after the last Tick, the driver itself was stopped, and the time between
// counts for no rank's timeout. Exactly one Condemn or Finish is returned; after it,
// every event returns Nothing.
//
// A rank's life:
//
//	absent ─Join─► here ─Done─► done        (its connection may end now)
//	   └────────────┴─────────────┴─Exited─► its process has ended
//
// A failure leaves a sign on a rank: its process ended, it reported an error, its
// connection broke, it is silent, it makes no progress, or it blames a peer. Settle
// starts with the first sign. After it, the rank with the strongest sign (see Kind) is
// the cause, and all other signs are listed under it. If that sign is a lost connection
// and Processes are reported, the group first waits for the end of the process.
type Group struct {
	cfg     GroupConfig
	states  rankStates
	version string

	joined   int
	started  bool          // Started was called
	lastJoin time.Duration // when the last rank joined or was started
	formed   bool
	ended    bool

	trouble   bool          // signs are being gathered
	since     time.Duration // time of the first sign, or when the driver resumed after it
	began     time.Duration // time of the first sign, without the time for which the driver was stopped
	pause     pause         // the last one
	tick      time.Duration
	ticked    bool
	refusals  []refusal
	doneSince time.Duration // when the last rank was done
	askedAt   time.Duration // when the ranks were last asked; 0: never
	suspects  []suspect
	calls     Calls
	differ    *Difference // the first difference found
}

// refusal is a rejected attempt to join.
type refusal struct {
	rank int
	why  error
}

// maxRefusals bounds the rejections kept for the verdict.
const maxRefusals = 8

// rankStates holds the states of all ranks, by number.
type rankStates []rankState

// rankState is what the group knows about one rank.
type rankState struct {
	member Member
	joined bool
	done   bool
	status Status

	traffic   Traffic
	trafficAt time.Duration

	beat  time.Duration // last sign of life
	moved time.Duration // last progress

	exited       bool
	code, signal int
	why          string // reason known to the launcher
	exitAt       time.Duration

	failed   bool // reported its own error
	cause    string
	failedAt time.Duration

	blames  bool // reported an error caused by a peer
	blamed  int  // the peer; or, if it failed, Own, ForGood or Differs
	blame   string
	blameAt time.Duration

	lost      bool
	lostAt    time.Duration
	silent    bool
	silentAt  time.Duration
	runSilent time.Duration // time since its last heartbeat for which the driver ran
	gap       time.Duration // longest recent time between its heartbeats for which the driver ran
	missed    bool          // its silence was printed, its return not yet
	printed   bool          // its silence was printed at some time
	printedAt time.Duration // when it was last printed
	lastSeen  time.Duration // its last heartbeat before that
	stuck     bool
	stuckAt   time.Duration
}

// NewGroup returns a group that no rank has joined yet. It panics unless cfg.Size is in
// 1 … MaxSize.
func NewGroup(cfg GroupConfig) *Group {
	if cfg.Size < 1 || cfg.Size > MaxSize {
		panic(fmt.Sprintf("rank: group of %d ranks", cfg.Size))
	}
	cfg = cfg.filled()
	g := &Group{cfg: cfg, states: make(rankStates, cfg.Size), version: cfg.Version}
	for i := range g.states {
		g.states[i].member.Rank = i
	}
	return g
}

// SilentAfter is the default time after which a rank without a heartbeat counts as silent.
const SilentAfter = 4 * time.Second

// MaxTimeout is the maximum timeout.
const MaxTimeout = 365 * 24 * time.Hour

// CheckTimeout returns an error if a user's timeout is zero, negative or above MaxTimeout.
func CheckTimeout(d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("timeout %s: must be positive", d)
	case d > MaxTimeout:
		return fmt.Errorf("timeout %s: must be at most %s", d, MaxTimeout)
	}
	return nil
}

// Validate returns an error for the first invalid field of c, such as a negative time.
func (c GroupConfig) Validate() error {
	if c.Size < 1 || c.Size > MaxSize {
		return fmt.Errorf("rank: world size %d is not within 1 … %d", c.Size, MaxSize)
	}
	if c.Generation < 0 {
		return fmt.Errorf("rank: generation %d is negative", c.Generation)
	}
	if c.Timeout != 0 {
		if err := CheckTimeout(c.Timeout); err != nil {
			return fmt.Errorf("rank: %w", err)
		}
	}
	if c.Silence < 0 || c.Silence > MaxTimeout {
		return fmt.Errorf("rank: silence %s: must be within 0s … %s", c.Silence, MaxTimeout)
	}
	if c.Settle < 0 || c.Settle > MaxTimeout {
		return fmt.Errorf("rank: settle %s: must be within 0s … %s", c.Settle, MaxTimeout)
	}
	if c.Ends < 0 || c.Ends > MaxTimeout {
		return fmt.Errorf("rank: ends %s: must be within 0s … %s", c.Ends, MaxTimeout)
	}
	return nil
}

func (c GroupConfig) filled() GroupConfig {
	if c.Timeout <= 0 {
		c.Timeout = 60 * time.Second
	}
	if c.Silence <= 0 {
		c.Silence = min(c.Timeout, SilentAfter)
	}
	if c.Settle <= 0 {
		c.Settle = 150 * time.Millisecond
	}
	if c.Ends <= 0 {
		c.Ends = min(c.Timeout, 2*time.Second)
	}
	return c
}

// Timeout returns the timeout in effect.
func (g *Group) Timeout() time.Duration { return g.cfg.Timeout }

// Settle returns the settle time in effect.
func (g *Group) Settle() time.Duration { return g.cfg.Settle }

// state returns the state of a rank, or nil if there is no such rank or the group has ended.
func (g *Group) state(rank int) *rankState {
	if g.ended || rank < 0 || rank >= len(g.states) {
		return nil
	}
	return &g.states[rank]
}

// Started means that the process of a rank runs. It comes before Join, so that a
// verdict can name a rank that never joins.
func (g *Group) Started(now time.Duration, rank int, host string, pid int) {
	if s := g.state(rank); s != nil && !s.joined {
		s.member.Host, s.member.Pid = host, pid
		g.started, g.lastJoin = true, now
	}
}

// Join is the request of a rank to become a member. The error is the reason for a
// rejection; a rejection does not affect the group.
func (g *Group) Join(now time.Duration, m Member) (Decision, error) {
	g.wake(now)
	if err := g.refuse(m); err != nil {
		if len(g.refusals) < maxRefusals {
			g.refusals = append(g.refusals, refusal{m.Rank, err})
		}
		return Decision{}, fmt.Errorf("rank: join: %w", err)
	}
	if g.version == "" {
		g.version = m.Version
	}
	g.joined++
	g.lastJoin = now
	s := &g.states[m.Rank]
	s.member, s.joined, s.beat, s.moved = m, true, now, now
	if g.joined == len(g.states) && !g.formed {
		return g.form(now), nil
	}
	return g.decide(now), nil
}

// ErrOldGeneration is the reason for rejecting a rank of an earlier generation.
var ErrOldGeneration = errors.New("it is left over from before a restart")

// ErrEnded is the reason for rejecting a rank after the verdict on its group.
var ErrEnded = errors.New("comes after the group has ended")

func (g *Group) refuse(m Member) error {
	switch {
	case g.ended:
		return fmt.Errorf("rank %d %w", m.Rank, ErrEnded)
	case m.Size != len(g.states):
		return fmt.Errorf("rank %d of a world of size %d joins a group of size %d", m.Rank, m.Size, len(g.states))
	case m.Rank < 0 || m.Rank >= len(g.states):
		return fmt.Errorf("rank %d joins a group of size %d", m.Rank, len(g.states))
	case m.Generation < g.cfg.Generation:
		return fmt.Errorf("rank %d of generation %d joins generation %d: %w", m.Rank, m.Generation, g.cfg.Generation, ErrOldGeneration)
	case m.Generation != g.cfg.Generation:
		return fmt.Errorf("rank %d of generation %d joins generation %d: it is ahead of a restart", m.Rank, m.Generation, g.cfg.Generation)
	case g.version != "" && m.Version != g.version:
		return fmt.Errorf("rank %d runs version %q of the program, the others run %q: start the same executable everywhere", m.Rank, m.Version, g.version)
	}
	s := &g.states[m.Rank]
	if s.joined {
		return fmt.Errorf("rank %d is already here (host %s, pid %d); the second is host %s, pid %d: two processes were given the same rank",
			m.Rank, s.member.Host, s.member.Pid, m.Host, m.Pid)
	}
	if s.exited {
		return fmt.Errorf("rank %d comes after its process has ended", m.Rank)
	}
	return nil
}

func (g *Group) form(now time.Duration) Decision {
	members := make([]Member, len(g.states))
	for i := range g.states {
		s := &g.states[i]
		if s.sign() != "" {
			return g.decide(now) // a group with a dead member is never complete
		}
		members[i] = s.member
		s.moved = now
	}
	g.formed = true
	return Decision{Act: Form, Members: members}
}

// Beat is a heartbeat of a rank. It makes no decision, so its cost does not grow with the
// size of the group. The next Tick evaluates it.
func (g *Group) Beat(now time.Duration, rank int, status Status) {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined {
		return
	}
	if status.mark() != s.status.mark() {
		s.moved, s.stuck = now, false
	}
	s.status = status
	s.recordBeat(now)
}

// Fail is a rank's report of an error. blamed is the rank that caused it: another rank,
// its own number, Own or ForGood if the error is its own, or Differs. status is what
// the rank was doing.
func (g *Group) Fail(now time.Duration, rank int, cause string, blamed int, status Status) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.failed || s.blames {
		return Decision{}
	}
	if status != (Status{}) {
		s.status = status
	}
	s.beat, s.runSilent = now, 0
	if blamed < 0 || blamed == rank || blamed >= len(g.states) {
		s.failed, s.cause, s.failedAt, s.blamed = true, cause, now, min(blamed, Own)
	} else {
		s.blames, s.blamed, s.blame, s.blameAt = true, blamed, cause, now
	}
	return g.decide(now)
}

// Disconnected means that the connection of a rank broke. After Done this is the usual
// end.
func (g *Group) Disconnected(now time.Duration, rank int) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.done || s.lost {
		return Decision{}
	}
	s.lost, s.lostAt = true, now
	return g.decide(now)
}

// Exited means that the process of a rank ended, with an exit code or by a signal. why
// is the reason if the launcher knows it, otherwise "".
func (g *Group) Exited(now time.Duration, rank, code, signal int, why string) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || s.exited {
		return Decision{}
	}
	s.exited, s.code, s.signal, s.why, s.exitAt = true, code, signal, why, now
	return g.decide(now)
}

// withHost is the exit code of a rank whose process was lost together with its host.
const withHost = -1

// HostLost means that the launcher has lost a host and with it the processes of these
// ranks, none of which has ended before. why is the reason.
func (g *Group) HostLost(now time.Duration, host string, ranks []int, why string) Decision {
	g.wake(now)
	for _, r := range ranks {
		if s := g.state(r); s != nil && !s.exited {
			s.member.Host = host
			s.exited, s.code, s.why, s.exitAt = true, withHost, why, now
			s.lost, s.lostAt, s.done = true, now, false
		}
	}
	return g.decide(now)
}

// lostWith reports whether two ranks were lost with the same host.
func (s *rankState) lostWith(o *rankState) bool {
	return s.code == withHost && o.code == withHost && s.member.Host == o.member.Host
}

// Done means that a rank has finished its work.
func (g *Group) Done(now time.Duration, rank int) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.failed || s.blames {
		return Decision{}
	}
	s.done, s.lost, s.silent, s.stuck = true, false, false, false
	g.doneSince = now
	return g.decide(now)
}
