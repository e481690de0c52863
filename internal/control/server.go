package control

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/internal/machine/gate"
	"github.com/wdlrun/wdlrun/rank"
)

// Config configures a coordinator. The zero value of every field except Key and Size is the
// default.
type Config struct {
	Key        rank.Key
	Size       int
	Generation int
	Version    string        // version of the program, whose ranks all join; "": the version of the first rank, if any joins
	Timeout    time.Duration // default rank.GroupConfig's
	Settle     time.Duration // default rank.GroupConfig's
	Processes  bool          // Started and Exited are called for every rank
	Host       Host          // nil: none

	// Word, if not nil, is called with one line about something that may lead to a verdict. Like
	// Host's methods it must not block.
	Word func(line string)
}

// Server is the coordinator of one group.
type Server struct {
	config Config
	addr   string
	grpc   *grpc.Server
	host   Host
	origin time.Time

	events  chan func(now time.Duration) // run by the loop, the only user of group and boxes
	group   *rank.Group
	boxes   map[int]*outbox
	ended   chan struct{} // closed when the group has ended; verdict is set before
	verdict *rank.Verdict
	closed  chan struct{}
	once    sync.Once

	running sync.WaitGroup // the loop, the acceptor, readers of streams
}

// Serve starts a coordinator on ln. The coordinator closes ln when it ends.
func Serve(ln net.Listener, config Config) (*Server, error) {
	group := rank.GroupConfig{Size: config.Size, Generation: config.Generation, Version: config.Version,
		Timeout: config.Timeout, Settle: config.Settle, Processes: config.Processes}
	if err := group.Validate(); err != nil {
		return nil, fmt.Errorf("control: serve: %w", err)
	}
	secure, err := config.Key.TLS()
	if err != nil {
		return nil, fmt.Errorf("control: serve: %w", err)
	}
	s := &Server{
		config: config,
		addr:   ln.Addr().String(),
		host:   config.Host,
		origin: time.Now(),
		group:  rank.NewGroup(group),
		events: make(chan func(time.Duration), 256),
		boxes:  map[int]*outbox{},
		ended:  make(chan struct{}),
		closed: make(chan struct{}),
	}
	if s.host == nil {
		s.host = noHost{}
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(proof{credentials.NewTLS(secure)}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(streamWindow),
		grpc.MaxConcurrentStreams(2),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	controlpb.RegisterControlServer(s.grpc, s)
	s.running.Go(func() { s.grpc.Serve(gate.New(ln, config.Size+unprovenMax)) })
	s.running.Go(s.loop)
	return s, nil
}

// Addr returns the address at which the coordinator listens.
func (s *Server) Addr() string { return s.addr }

// Ended returns a channel that is closed when the group has finished or has a verdict.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Verdict returns the verdict; nil before the end and after success.
func (s *Server) Verdict() *rank.Verdict {
	if s.over() {
		return s.verdict
	}
	return nil
}

// over reports whether the group has ended.
func (s *Server) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Started records that the process of a rank is running.
func (s *Server) Started(r int, host string, pid int) {
	s.post(func(now time.Duration) { s.group.Started(now, r, host, pid) })
}

// Exited records that the process of a rank ended with a code or by a signal. why is the
// known reason, or "".
func (s *Server) Exited(r, code, signal int, why string) {
	s.post(func(now time.Duration) { s.act(s.group.Exited(now, r, code, signal, why)) })
}

// HostLost records that a host was lost with the processes of these ranks, and why.
func (s *Server) HostLost(host string, ranks []int, why string) {
	s.post(func(now time.Duration) { s.act(s.group.HostLost(now, host, ranks, why)) })
}

// Order sends an order to all connected ranks.
func (s *Server) Order(o Order) { s.post(func(time.Duration) { s.order(o) }) }

func (s *Server) order(o Order) {
	m := &controlpb.ToRank{What: &controlpb.ToRank_Order{Order: &controlpb.Order{Kind: text(string(o))}}}
	for _, box := range s.boxes {
		box.offer(m)
	}
}

// Close ends the coordinator. After the end of the group it waits for a bounded time until
// the ranks know the outcome. Before that, the ranks find the coordinator gone.
func (s *Server) Close() error {
	s.once.Do(func() {
		if s.over() {
			late := time.AfterFunc(farewell, s.grpc.Stop)
			s.grpc.GracefulStop() // the streams end with their last message
			late.Stop()
		}
		close(s.closed)
		s.grpc.Stop()
		s.running.Wait()
	})
	return nil
}

// post passes an event to the loop. After Close the event is dropped.
func (s *Server) post(event func(now time.Duration)) {
	select {
	case s.events <- event:
	case <-s.closed:
	}
}

// loop drives the group with real time.
func (s *Server) loop() {
	tick := time.NewTicker(max(min(s.group.Settle()/16, s.group.Timeout()/20), time.Millisecond))
	defer tick.Stop()
	show := time.NewTicker(aliveEvery)
	defer show.Stop()
	for {
		select {
		case event := <-s.events:
			event(time.Since(s.origin))
		case <-tick.C:
			s.drain()
			s.act(s.group.Tick(time.Since(s.origin)))
		case <-show.C:
			if !s.config.Processes && !s.over() {
				s.order(aliveOrder)
			}
		case <-s.closed:
			return
		}
	}
}

// drain processes the received messages before time advances, so that a rank that has sent
// one does not count as silent.
func (s *Server) drain() {
	for range cap(s.events) {
		select {
		case event := <-s.events:
			event(time.Since(s.origin))
		default:
			return
		}
	}
}

// act carries out a decision.
func (s *Server) act(d rank.Decision) {
	switch d.Act {
	case rank.Form:
		m := &controlpb.ToRank{What: &controlpb.ToRank_Formed{Formed: rosterToWire(d.Members)}}
		for _, box := range s.boxes {
			box.put(m)
		}
		s.host.Formed(d.Members)
	case rank.Condemn:
		s.order(Stacks) // requested before the verdict changes what the stacks show
		s.end(d.Verdict, &controlpb.ToRank{What: &controlpb.ToRank_Verdict{Verdict: verdictToWire(d.Verdict)}})
	case rank.Ask:
		s.order(begunOrder)
	case rank.Tell:
		if s.config.Word != nil {
			s.config.Word(d.Word)
		}
	case rank.Finish:
		s.end(nil, &controlpb.ToRank{What: &controlpb.ToRank_Finished{Finished: &controlpb.Finished{}}})
	}
}

func (s *Server) end(v *rank.Verdict, last *controlpb.ToRank) {
	for _, box := range s.boxes {
		box.finish(last)
	}
	s.verdict = v
	close(s.ended)
	s.host.Ended(v)
}

// errClosed is the error of a stream that begins while the coordinator ends.
var errClosed = errors.New("control: the coordinator is ending")

// join adds a rank to the group, or returns why it cannot. It returns when the loop has
// decided.
func (s *Server) join(m rank.Member, box *outbox) error {
	answer := make(chan error, 1)
	s.post(func(now time.Duration) {
		// Store the box before the group decides: its decision may be addressed to this rank too.
		old := s.boxes[m.Rank]
		s.boxes[m.Rank] = box
		box.put(&controlpb.ToRank{What: &controlpb.ToRank_Welcome{Welcome: &controlpb.Welcome{TimeoutNs: int64(s.group.Timeout())}}})
		d, err := s.group.Join(now, m)
		if err != nil {
			delete(s.boxes, m.Rank)
			if old != nil {
				s.boxes[m.Rank] = old
			}
		}
		answer <- err
		s.act(d)
	})
	select {
	case err := <-answer:
		return err
	case <-s.closed:
		return errClosed
	}
}
