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

// withHost is the exit code of a rank whose process was lost together with its host.
const withHost = -1

// lostWith reports whether two ranks were lost with the same host.
func (s *rankState) lostWith(o *rankState) bool {
	return s.code == withHost && o.code == withHost && s.member.Host == o.member.Host
}

// pause is a time for which the driver was stopped, long enough that ranks leave a
// coordinator in rank 0.
type pause struct{ end, length time.Duration }

// suspect is a message that is stalled although its peer has begun it.
type suspect struct {
	rank, peer, channel int
	sends               bool
	message             uint64
	since               time.Duration // when the coordinator first knew
}

// Traffic is what a rank reports about its links to other hosts and its collective
// calls. Heartbeats contain it only when there is something to report.
type Traffic struct {
	Waits []Wait  // messages that have not moved for a while
	Begun []Begun // answer to Ask, by peer and channel
	Calls []Call  // last calls of channels that have stalled; sent once per standstill
}

// Wait is a message that has stopped moving.
type Wait struct {
	Peer    int           // the other side
	Channel int           // channel of the group's collectives
	Sends   bool          // the rank sends it; else it receives it
	Message uint64        // number on the link, channel and direction, from 1
	For     time.Duration // time since a byte last moved
}

// Begun counts the messages between two ranks on one channel. A message counts when the
// system has all of it, or when it is stalled.
type Begun struct {
	Peer, Channel  int
	Sent, Received uint64
	Quiet          time.Duration // time since a small message last arrived from the peer
}
