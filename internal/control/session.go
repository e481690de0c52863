package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/rank"
)

// Options configures a session. The zero value is the default.
type Options struct {
	// Version of the program; all ranks must have the same.
	Version string

	// Timeout is how long to wait for the coordinator to be reachable. In the process that hosts
	// the coordinator, it is also the timeout of the group. Default 60 s.
	Timeout time.Duration

	// Note is for the other ranks, at most 1 KiB. They find it in Members.
	Note string

	// Ports is the range of ports at which this process listens, such as 20000-20100; "": any.
	Ports string

	// Host observes the group if this process hosts the coordinator.
	Host Host

	// Word is called with one line about something that may lead to a verdict: in the process that
	// hosts the coordinator, see Config; in others, while they wait for it to be reachable.
	Word func(line string)
}

// Validate returns an error for a timeout outside the limits. Zero is the default.
func (o Options) Validate() error {
	if o.Timeout == 0 {
		return nil
	}
	if err := rank.CheckTimeout(o.Timeout); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}

// Session is the connection of a rank to the coordinator.
type Session struct {
	world   rank.World
	timeout time.Duration
	server  *Server // if this process hosts the coordinator

	client      *grpc.ClientConn
	stream      controlpb.Control_AttendClient
	link        *link
	cancel      context.CancelFunc
	out         chan *controlpb.FromRank
	beats                    // what heartbeats report
	lastMessage atomic.Int64 // time of the last message of the coordinator
	origin      time.Time
	orders      chan Order

	welcome  chan time.Duration // one value
	formed   chan struct{}      // closed after members is set
	members  []rank.Member
	noted    chan struct{}
	finished chan struct{}
	aborted  chan struct{} // closed after err is set
	err      error
	abort    sync.Once

	leave   chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

// Join connects to the coordinator at w.Coordinator, proves w.Key, and returns when the group
// has formed. addr is the address at which other ranks reach this one; the package does not
// interpret it. Most programs call Enter instead.
func Join(ctx context.Context, w rank.World, addr string, opts Options) (*Session, error) {
	if err := errors.Join(w.Validate(), opts.Validate()); err != nil {
		return nil, err
	}
	if w.Coordinator == "" || w.Key == (rank.Key{}) {
		return nil, fmt.Errorf("control: join: rank %d knows no coordinator or no key; use Enter, or set WDLRUN_COORDINATOR and WDLRUN_KEY", w.Rank)
	}
	fixed := func() (string, rank.Key, error) { return w.Coordinator, w.Key, nil }
	return join(ctx, w, addr, opts, fixed, nil)
}

// join connects to the coordinator that where names. server is the coordinator if this
// process hosts it.
func join(ctx context.Context, w rank.World, addr string, opts Options, where locator, server *Server) (*Session, error) {
	link, err := reach(ctx, w, opts.Timeout, where)
	if err != nil {
		return nil, err
	}
	w.Coordinator, w.Key = link.addr, link.key
	s := &Session{
		world: w, server: server, link: link, origin: time.Now(),
		out: make(chan *controlpb.FromRank, 16), beats: beats{watched: make(chan struct{}, 1)}, orders: make(chan Order, 16), welcome: make(chan time.Duration, 1),
		formed: make(chan struct{}), noted: make(chan struct{}), finished: make(chan struct{}), aborted: make(chan struct{}),
		leave: make(chan struct{}),
	}
	if s.client, err = link.client(); err != nil {
		link.conn.Close()
		return nil, fmt.Errorf("control: join: rank %d: %w", w.Rank, err)
	}
	var life context.Context
	life, s.cancel = context.WithCancel(context.Background())
	s.stream, err = controlpb.NewControlClient(s.client).Attend(life)
	if err == nil {
		err = s.stream.Send(s.hello(addr, opts))
	}
	if err != nil {
		s.cancel()
		s.client.Close()
		return nil, fmt.Errorf("control: join: rank %d: %w", w.Rank, err)
	}
	s.running.Go(s.receive)
	if err := s.enter(ctx, max(cmp.Or(opts.Timeout, defaultTimeout), handshakeTimeout)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) hello(addr string, opts Options) *controlpb.FromRank {
	m := rank.Member{Rank: s.world.Rank, Size: s.world.Size, Generation: s.world.Generation, Version: opts.Version,
		Host: s.world.Host, Pid: os.Getpid(), Addr: addr, Note: opts.Note}
	return &controlpb.FromRank{What: &controlpb.FromRank_Hello{Hello: &controlpb.Hello{Protocol: protocol, Member: memberToWire(m)}}}
}

// enter waits for Welcome, at most patience, and then for the group to form.
func (s *Session) enter(ctx context.Context, patience time.Duration) error {
	unanswered := time.NewTimer(patience)
	defer unanswered.Stop()
	select {
	case s.timeout = <-s.welcome:
	case <-s.aborted:
		return s.err
	case <-ctx.Done():
		return s.gaveUp(ctx)
	case <-unanswered.C:
		return fmt.Errorf("control: join: rank %d: the coordinator at %s does not answer", s.world.Rank, s.world.Coordinator)
	}
	s.running.Go(s.send)
	// The coordinator decides which ranks are missing. This bound is for the case that the
	// coordinator itself is stopped.
	late := time.NewTimer(2*s.timeout + settleTimeout + time.Duration(s.world.Size)*oneJoins)
	defer late.Stop()
	select {
	case <-s.formed:
		return nil
	case <-s.aborted:
		return s.err
	case <-ctx.Done():
		return s.gaveUp(ctx)
	case <-late.C:
		return fmt.Errorf("control: join: rank %d: the coordinator at %s neither forms the group nor ends it", s.world.Rank, s.world.Coordinator)
	}
}

// oneJoins exceeds the time in which a rank starts and joins when many ranks share a core.
// The coordinator allows this time for each rank.
const oneJoins = 250 * time.Millisecond

func (s *Session) gaveUp(ctx context.Context) error {
	return fmt.Errorf("control: join: rank %d: %w", s.world.Rank, context.Cause(ctx))
}

// World returns the place of the rank, with the address of the coordinator and the key of the
// job.
func (s *Session) World() rank.World { return s.world }

// Timeout returns the timeout of the group, as sent by the coordinator.
func (s *Session) Timeout() time.Duration { return s.timeout }

// Members returns the members of the group by rank.
func (s *Session) Members() []rank.Member { return s.members }

// Roster returns, by rank, the addresses that the ranks passed to Join.
func (s *Session) Roster() []string {
	addrs := make([]string, len(s.members))
	for i, m := range s.members {
		addrs[i] = m.Addr
	}
	return addrs
}

// Orders returns the channel of orders, except Stacks, which the session handles. If 16
// orders are waiting, further ones are dropped.
func (s *Session) Orders() <-chan Order { return s.orders }

// Aborted returns a channel that is closed when the group has ended with a verdict.
func (s *Session) Aborted() <-chan struct{} { return s.aborted }

// Err returns nil while the group is alive, and then the reason for its end, a *rank.Verdict.
func (s *Session) Err() error {
	select {
	case <-s.aborted:
		return s.err
	default:
		return nil
	}
}

// Fail reports an error of this rank: blamed is rank.Own, rank.ForGood for an error that
// would occur again, or the number of another rank that caused it. It waits at most 10 s and
// returns the verdict on the group, or cause if there is none.
func (s *Session) Fail(cause error, blamed int) error {
	f := &controlpb.Failure{Cause: cut(cause.Error(), maxCause), Blamed: int64(blamed), Status: s.status()}
	s.put(&controlpb.FromRank{What: &controlpb.FromRank_Failure{Failure: f}})
	late := time.NewTimer(settleTimeout)
	defer late.Stop()
	select {
	case <-s.aborted:
		return s.err
	case <-s.finished:
	case <-late.C:
	}
	return cause
}

// Done reports that the work of this rank is done and sends result, at most 4 MiB, to the
// coordinator's host. It returns when the coordinator has received it; in the process that
// hosts the coordinator, when all ranks are done. The error is the verdict if the group has
// failed. After Done the rank may Close.
func (s *Session) Done(result []byte) error {
	if len(result) > maxResult {
		return fmt.Errorf("control: done: rank %d: the result has %d bytes, at most %d are allowed", s.world.Rank, len(result), maxResult)
	}
	s.put(&controlpb.FromRank{What: &controlpb.FromRank_Done{Done: &controlpb.Done{Result: result}}})
	// There is no time limit: a stopped coordinator receives it later, and if the coordinator is
	// gone, the stream breaks.
	confirmed := s.noted
	if s.server != nil {
		confirmed = s.finished
	}
	select {
	case <-confirmed:
		return nil
	case <-s.aborted:
		select {
		case <-confirmed: // both have arrived: the work was done first
			return nil
		default:
			return s.err
		}
	}
}

// Close ends the session. Without a prior Done, the coordinator considers the rank lost.
// Close takes at most a few seconds.
func (s *Session) Close() error {
	s.once.Do(func() {
		close(s.leave)
		late := time.AfterFunc(farewell, s.cancel)
		s.running.Wait()
		late.Stop()
		s.cancel()
		s.client.Close()
		if s.server != nil {
			select { // report the reason to the other ranks
			case <-s.server.Ended():
			case <-time.After(farewell):
			}
			s.server.Close()
		}
	})
	return nil
}

// put passes a message to the sender, unless the sender has ended.
func (s *Session) put(m *controlpb.FromRank) {
	select {
	case s.out <- m:
	case <-s.aborted:
	case <-s.leave:
	case <-s.stream.Context().Done():
	}
}

// send sends messages and heartbeats until the rank leaves.
func (s *Session) send() {
	every := interval(s.timeout, s.world)
	beat := time.NewTicker(every)
	defer beat.Stop()
	for last := time.Now(); ; {
		var m, also *controlpb.FromRank
		select {
		case m = <-s.out:
		case now := <-beat.C:
			m, also = &controlpb.FromRank{What: &controlpb.FromRank_Beat{Beat: s.status()}}, s.traffic(time.Since(s.origin))
			s.listen(time.Since(last) > every+aliveEvery)
			last = now
		case <-s.watched:
			m = &controlpb.FromRank{What: &controlpb.FromRank_Beat{Beat: s.status()}}
		case <-s.leave:
			s.drain()
			return
		case <-s.stream.Context().Done():
			return
		}
		if s.stream.Send(m) != nil || also != nil && s.stream.Send(also) != nil {
			return // receive gets the reason
		}
	}
}

// listen ends this rank if the coordinator, in the process of another rank, has sent nothing
// for rank.CoordinatorSilence. paused reports that this process itself did not run for a
// while, so received messages may not be read yet.
func (s *Session) listen(paused bool) {
	now := time.Since(s.origin)
	if paused || s.lastMessage.Load() == 0 {
		s.lastMessage.Store(int64(now))
		return
	}
	quiet := now - time.Duration(s.lastMessage.Load())
	if s.world.Launched || s.server != nil || quiet < rank.CoordinatorSilence || !closed(s.formed) || closed(s.noted) {
		return
	}
	v := s.gone()
	v.Cause = fmt.Sprintf("rank 0, which hosts the coordinator, has been silent for %s: it is stopped, or its host is overloaded or unreachable", quiet.Round(100*time.Millisecond))
	s.end(v)
	s.cancel() // expect no further message
}

// drain sends the remaining messages and closes this side of the stream.
func (s *Session) drain() {
	for {
		select {
		case m := <-s.out:
			if s.stream.Send(m) != nil {
				return
			}
		default:
			s.stream.CloseSend()
			return
		}
	}
}

// receive processes the coordinator's messages until the stream ends.
func (s *Session) receive() {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			s.broken(err)
			return
		}
		s.lastMessage.Store(int64(time.Since(s.origin)))
		switch w := m.GetWhat().(type) {
		case *controlpb.ToRank_Welcome:
			select {
			case s.welcome <- min(max(time.Duration(w.Welcome.GetTimeoutNs()), time.Millisecond), rank.MaxTimeout):
			default:
			}
		case *controlpb.ToRank_Formed:
			s.form(rosterFromWire(w.Formed))
		case *controlpb.ToRank_Order:
			s.order(Order(w.Order.GetKind()))
		case *controlpb.ToRank_Noted:
			once(s.noted)
		case *controlpb.ToRank_Finished:
			once(s.finished)
		case *controlpb.ToRank_Verdict:
			s.end(verdictFromWire(w.Verdict))
		}
	}
}

// once closes a channel, unless it is closed. Only receive calls it for that channel.
func once(c chan struct{}) {
	if !closed(c) {
		close(c)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *Session) form(members []rank.Member) {
	if closed(s.formed) {
		return
	}
	if len(members) != s.world.Size {
		s.end(fmt.Errorf("control: join: rank %d: a roster of %d members for a world of size %d", s.world.Rank, len(members), s.world.Size))
		return
	}
	s.members = members
	close(s.formed)
}

// Report sends body, cut at 512 KiB, to the coordinator's host. about identifies its content.
// Report does not wait. Reports after the verdict are accepted until the rank closes its
// session, at most a few seconds.
func (s *Session) Report(about string, body []byte) {
	m := &controlpb.FromRank{What: &controlpb.FromRank_Report{Report: &controlpb.Report{Order: text(about), Body: body[:min(len(body), maxStacks)]}}}
	select {
	case s.out <- m:
	default: // the coordinator does not read
	}
}

func (s *Session) order(o Order) {
	switch o {
	case aliveOrder:
		return
	case begunOrder:
		s.asked.Store(int64(time.Since(s.origin)))
		return
	case Stacks:
		body := make([]byte, maxStacks)
		s.Report(string(o), body[:runtime.Stack(body, true)])
		return
	}
	select {
	case s.orders <- o:
	default:
	}
}

func (s *Session) end(err error) {
	s.abort.Do(func() {
		s.err = err
		close(s.aborted)
	})
}

// broken handles the end of the stream.
func (s *Session) broken(err error) {
	switch {
	case closed(s.finished), closed(s.noted), closed(s.leave):
		return // the usual end
	case !closed(s.formed) && status.Code(err) == codes.OutOfRange:
		s.end(s.refused(err, rank.ErrOldGeneration))
		return
	case !closed(s.formed) && status.Code(err) == codes.Aborted:
		s.end(s.refused(err, rank.ErrEnded))
		return
	case !closed(s.formed) && (status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument):
		s.end(fmt.Errorf("control: join: rank %d is rejected: %s", s.world.Rank, status.Convert(err).Message()))
		return
	}
	s.end(s.gone())
}

// refused returns the error of a rank that the coordinator rejects for a known reason.
func (s *Session) refused(err, reason error) error {
	return fmt.Errorf("control: join: rank %d is rejected: %s%w", s.world.Rank, strings.TrimSuffix(status.Convert(err).Message(), reason.Error()), reason)
}

// gone returns the verdict of a rank that has lost the coordinator. It does not request a new
// status, which could block.
func (s *Session) gone() *rank.Verdict {
	v := &rank.Verdict{Kind: rank.Gone, Rank: -1, Cause: "the launcher is gone"}
	if !s.world.Launched {
		v.Rank = 0
		v.Cause = "rank 0, which hosts the coordinator, is gone"
	}
	if s.link.conn.unanswered.Load() {
		v.Cause += fmt.Sprintf(": its host has not answered for %s, so it or the network to it is down", hostTimeout)
	}
	if last := s.last.Load(); last.GetPhase() != "" {
		v.Cause += fmt.Sprintf(" (lost while rank %d was in phase %s, step %d)", s.world.Rank, last.GetPhase(), last.GetStep())
	}
	return v
}
