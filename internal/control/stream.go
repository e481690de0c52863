package control

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/rank"
)

// Attend serves one rank's stream.
func (s *Server) Attend(stream controlpb.Control_AttendServer) error {
	messages, broken := make(chan *controlpb.FromRank), make(chan struct{})
	// The reader ends with the context of the stream, which ends when this handler returns. So
	// Close waits for the reader, not the handler.
	s.running.Go(func() {
		defer close(broken)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case messages <- m:
			case <-stream.Context().Done():
				return
			}
		}
	})
	hello := time.NewTimer(handshakeTimeout)
	defer hello.Stop()
	select {
	case m := <-messages:
		return s.attend(stream, m, messages, broken)
	case <-broken:
		return nil
	case <-s.closed:
		return status.Error(codes.Unavailable, errClosed.Error())
	case <-hello.C:
		return status.Error(codes.DeadlineExceeded, "control: no Hello in time")
	}
}

// attend adds the rank of a stream to the group and passes messages in both directions until
// either side ends.
func (s *Server) attend(stream controlpb.Control_AttendServer, first *controlpb.FromRank, messages <-chan *controlpb.FromRank, broken <-chan struct{}) error {
	h := first.GetHello()
	if h == nil {
		return status.Error(codes.InvalidArgument, "control: the first message is not Hello")
	}
	if h.GetProtocol() != protocol {
		return status.Errorf(codes.FailedPrecondition, "control: the rank speaks version %d of the protocol, the coordinator version %d: use the same wdlrun on both sides", h.GetProtocol(), protocol)
	}
	m, box := memberFromWire(h.GetMember()), newOutbox()
	if err := s.join(m, box); errors.Is(err, rank.ErrOldGeneration) {
		return status.Error(codes.OutOfRange, err.Error())
	} else if errors.Is(err, rank.ErrEnded) {
		return status.Error(codes.Aborted, err.Error())
	} else if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	for {
		select {
		case <-box.wake:
			queue, last := box.take()
			for _, out := range queue {
				if err := stream.Send(out); err != nil {
					s.disconnected(m.Rank)
					return err
				}
			}
			if last {
				s.acceptLastReports(m.Rank, messages, broken, box)
				return nil
			}
		case msg := <-messages:
			if err := s.hear(m.Rank, msg, box); err != nil {
				s.disconnected(m.Rank)
				return status.Error(codes.InvalidArgument, err.Error())
			}
		case <-broken:
			s.disconnected(m.Rank)
			return nil
		case <-s.closed:
			return status.Error(codes.Unavailable, errClosed.Error())
		}
	}
}

// acceptLastReports accepts reports of a rank after the end of the group until the rank leaves. A
// stopped rank answers when it is woken to end.
func (s *Server) acceptLastReports(r int, messages <-chan *controlpb.FromRank, broken <-chan struct{}, box *outbox) {
	late := time.NewTimer(lastWordsTime)
	defer late.Stop()
	for {
		select {
		case msg := <-messages:
			if msg.GetReport() != nil {
				s.hear(r, msg, box)
			}
		case <-broken:
			return
		case <-late.C:
			return
		case <-s.closed:
			return
		}
	}
}

func (s *Server) disconnected(r int) {
	s.post(func(now time.Duration) {
		delete(s.boxes, r)
		s.act(s.group.Disconnected(now, r))
	})
}

// hear passes a message of a joined rank to the loop.
func (s *Server) hear(r int, m *controlpb.FromRank, box *outbox) error {
	switch w := m.GetWhat().(type) {
	case *controlpb.FromRank_Beat:
		st := statusFromWire(w.Beat)
		s.post(func(now time.Duration) {
			s.group.Beat(now, r, st)
			if !s.over() {
				s.host.Status(r, st)
			}
		})
	case *controlpb.FromRank_Traffic:
		t := trafficFromWire(w.Traffic)
		s.post(func(now time.Duration) { s.group.Traffic(now, r, t) })
	case *controlpb.FromRank_Failure:
		cause, blamed, st := cut(w.Failure.GetCause(), maxCause), int(w.Failure.GetBlamed()), statusFromWire(w.Failure.GetStatus())
		s.post(func(now time.Duration) { s.act(s.group.Fail(now, r, cause, blamed, st)) })
	case *controlpb.FromRank_Done:
		result := w.Done.GetResult()
		if len(result) > maxResult {
			return errors.New("control: a result is too long")
		}
		s.post(func(now time.Duration) {
			if !s.over() {
				s.host.Report(r, "result", result)
			}
			box.put(&controlpb.ToRank{What: &controlpb.ToRank_Noted{Noted: &controlpb.Noted{}}})
			s.act(s.group.Done(now, r))
		})
	case *controlpb.FromRank_Report:
		about, body := text(w.Report.GetOrder()), w.Report.GetBody()
		s.post(func(time.Duration) { s.host.Report(r, about, body[:min(len(body), maxStacks)]) })
	default:
		return errors.New("control: the kind of a message is unknown")
	}
	return nil
}
