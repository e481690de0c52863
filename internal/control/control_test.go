package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

func TestMain(m *testing.M) {
	if os.Getenv("CONTROL_TEST_RANK") != "" {
		os.Exit(rankProgram())
	}
	goleak.VerifyTestMain(patient.Settled(m))
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	return ln
}

// serve starts a coordinator and closes it at the end of the test.
func serve(t *testing.T, c Config) *Server {
	t.Helper()
	if c.Key == (rank.Key{}) {
		c.Key = rank.NewKey()
	}
	s, err := Serve(listen(t), c)
	fatal.If(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// world returns the World that a launcher would pass to rank r of the job of s.
func world(s *Server, r int) rank.World {
	return rank.World{Rank: r, Size: s.config.Size, LocalRank: r, LocalSize: s.config.Size, Host: "here", By: "wdlrun",
		Generation: s.config.Generation, Coordinator: s.Addr(), Key: s.config.Key, Launched: true}
}

// all runs f for each rank at once and returns the errors by rank.
func all(size int, f func(r int) error) []error {
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errs
}

// joinAll joins all ranks of s.
func joinAll(t *testing.T, s *Server, opts Options) []*Session {
	t.Helper()
	sessions, err := tryJoinAll(t, s, opts)
	fatal.If(t, err)
	return sessions
}

// tryJoinAll is joinAll with a time limit that a busy machine may miss.
func tryJoinAll(t *testing.T, s *Server, opts Options) ([]*Session, error) {
	sessions := make([]*Session, s.config.Size)
	err := errors.Join(all(len(sessions), func(r int) (err error) {
		sessions[r], err = Join(t.Context(), world(s, r), fmt.Sprintf("10.0.0.%d:7", r), opts)
		return err
	})...)
	for _, session := range sessions {
		if session != nil {
			t.Cleanup(func() { session.Close() })
		}
	}
	return sessions, err
}

// witness is a Host that records its calls.
type witness struct {
	mu       sync.Mutex
	members  []rank.Member
	statuses map[int]rank.Status
	reports  map[string]string // "rank about"
	ended    int
	verdict  *rank.Verdict
	news     chan struct{}
}

func newWitness() *witness {
	return &witness{statuses: map[int]rank.Status{}, reports: map[string]string{}, news: make(chan struct{}, 1000)}
}

func (w *witness) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended > 0 {
		w.ended = 1000 // Status was called after the end
	}
	f()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *witness) Formed(m []rank.Member)      { w.note(func() { w.members = m }) }
func (w *witness) Status(r int, s rank.Status) { w.note(func() { w.statuses[r] = s }) }
func (w *witness) Ended(v *rank.Verdict)       { w.note(func() { w.ended++; w.verdict = v }) }
func (w *witness) Report(r int, a string, b []byte) { // allowed after the end
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports[fmt.Sprint(r, " ", a)] = string(b)
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// until waits for calls until ok returns true.
func (w *witness) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(patient.Longest)
	for {
		w.mu.Lock()
		good := ok()
		w.mu.Unlock()
		if good {
			return
		}
		select {
		case <-w.news:
		case <-late:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patient.Longest):
		t.Fatalf("timed out waiting for %s", what)
	}
}

func TestWholeLife(t *testing.T) {
	host := newWitness()
	s := serve(t, Config{Size: 3, Generation: 2, Host: host, Timeout: patient.Longest})
	sessions := joinAll(t, s, Options{Version: "v1", Note: "by shm"})
	for r, session := range sessions {
		if got := strings.Join(session.Roster(), " "); got != "10.0.0.0:7 10.0.0.1:7 10.0.0.2:7" {
			t.Errorf("rank %d: roster %s", r, got)
		}
		if m := session.Members()[1]; m.Host != "here" || m.Pid != os.Getpid() || m.Rank != 1 || m.Generation != 2 || m.Note != "by shm" {
			t.Errorf("rank %d: member %+v", r, m)
		}
		if session.Timeout() != patient.Longest || session.Err() != nil {
			t.Errorf("rank %d: timeout %v, error %v", r, session.Timeout(), session.Err())
		}
		want := rank.Status{Step: int64(10 + r), Steps: 100, Epoch: 1, Epochs: 2, Span: 3, Phase: "compute", Waits: true, Position: "p", Progress: 4,
			Samples: 5, SamplesPerSecond: 6.5, Loss: .25, RunDir: "d"}
		session.Watch(func() rank.Status { return want })
		host.until(t, "a status", func() bool { return host.statuses[r] == want })
	}
	for r, err := range all(3, func(r int) error { return sessions[r].Done([]byte{byte(r)}) }) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
		sessions[r].Close()
	}
	wait(t, "the end", s.Ended())
	if s.Verdict() != nil {
		t.Error(s.Verdict())
	}
	s.Close()
	if len(host.members) != 3 || host.reports["2 result"] != "\x02" || host.ended != 1 || host.verdict != nil {
		t.Errorf("the host saw %+v", host)
	}
}

// TestAllRanksGetTheSameVerdict: one rank fails, one blames it, and the third, whose work
// is done, gets the same verdict. No more evidence can arrive, so the verdict does not wait
// for Settle.
func TestAllRanksGetTheSameVerdict(t *testing.T) {
	host := newWitness()
	s := serve(t, Config{Size: 3, Host: host, Settle: patient.Longest})
	sessions := joinAll(t, s, Options{})
	sessions[1].Watch(func() rank.Status { return rank.Status{Step: 7, Phase: "input", Position: "a.csv offset 9"} })
	fatal.If(t, sessions[2].Done(nil))
	errs := all(3, func(r int) error {
		switch r {
		case 0:
			return sessions[0].Fail(errors.New("tcp: rank 1: reset"), 1)
		case 1:
			return sessions[1].Fail(errors.New("data: a.csv: row 3: no number"), -1)
		}
		wait(t, "the verdict", sessions[2].Aborted())
		return sessions[2].Err()
	})
	want := fmt.Sprintf("rank 1 (host here, pid %d) failed in phase input, step 7, input a.csv offset 9: data: a.csv: row 3: no number; 1 other rank lost its connection to it", os.Getpid())
	for r, err := range errs {
		var v *rank.Verdict
		if !errors.As(err, &v) || v.String() != want || v.Rank != 1 || v.Kind != rank.Failed || v.Folded != 1 || len(v.Others) != 0 {
			t.Errorf("rank %d:\n got  %v\n want %s", r, err, want)
		}
	}
	for _, session := range sessions {
		session.Close()
	}
	s.Close()
	if host.ended != 1 || host.verdict.String() != want {
		t.Errorf("the host saw %v", host.verdict)
	}
}

// TestReportsAfterTheVerdict: after the verdict every live rank reports its stacks, and may report more
// until it leaves. A dead rank delays no other rank.
func TestReportsAfterTheVerdict(t *testing.T) {
	host := newWitness()
	s := serve(t, Config{Size: 3, Host: host})
	sessions := joinAll(t, s, Options{})
	sessions[2].cancel()
	for _, session := range sessions[:2] {
		wait(t, "the verdict", session.Aborted())
		session.Report("trace", []byte("the last steps"))
		session.Close()
	}
	host.until(t, "the report after the verdict", func() bool {
		for _, about := range []string{"0 stacks", "0 trace", "1 stacks", "1 trace"} {
			if host.reports[about] == "" {
				return false
			}
		}
		return true
	})
	if got := host.reports["1 stacks"]; !strings.Contains(got, "goroutine ") || !strings.Contains(got, "TestReportsAfterTheVerdict") {
		t.Errorf("stacks of rank 1: %.200s", got)
	}
	if host.reports["0 trace"] != "the last steps" || host.reports["2 stacks"] != "" {
		t.Errorf("reports %q", host.reports)
	}
}

// slowHost delays a result, like a coordinator that is stopped.
type slowHost struct {
	noHost
	until chan struct{}
}

func (h slowHost) Report(int, string, []byte) { <-h.until }

// TestDoneIsPatient: a rank whose work is done waits for a coordinator that was stopped for
// longer than any time-out.
func TestDoneIsPatient(t *testing.T) {
	host := slowHost{until: make(chan struct{})}
	s := serve(t, Config{Size: 1, Host: host})
	session := joinAll(t, s, Options{})[0]
	sending := make(chan struct{})
	var first sync.Once
	session.Watch(func() rank.Status { first.Do(func() { close(sending) }); return rank.Status{} })
	<-sending                                             // it has read the timeout
	session.timeout = 20*time.Millisecond - settleTimeout // the sum of both was once a bound
	time.AfterFunc(200*time.Millisecond, func() { close(host.until) })
	if err := session.Done([]byte("result")); err != nil {
		t.Error(err)
	}
}

func TestLostConnection(t *testing.T) {
	s := serve(t, Config{Size: 2})
	sessions := joinAll(t, s, Options{})
	sessions[1].cancel() // as if its process ended
	wait(t, "the verdict", sessions[0].Aborted())
	if v := s.Verdict(); v.Kind != rank.Lost || v.Rank != 1 {
		t.Error(v)
	}
	if err := sessions[0].Done(nil); err == nil {
		t.Error("Done after the verdict")
	}
}

func TestClosedWithoutDoneIsLost(t *testing.T) {
	s := serve(t, Config{Size: 2})
	sessions := joinAll(t, s, Options{})
	sessions[0].Close()
	wait(t, "the verdict", sessions[1].Aborted())
	if v := s.Verdict(); v.Kind != rank.Lost || v.Rank != 0 {
		t.Error(v)
	}
}

// TestKilledProcess: the launcher's report explains the broken connection.
func TestKilledProcess(t *testing.T) {
	s := serve(t, Config{Size: 2, Processes: true, Settle: patient.Longest})
	s.Started(0, "here", 41)
	s.Started(1, "here", 42)
	sessions := joinAll(t, s, Options{})
	sessions[1].cancel()
	s.Exited(1, 0, 9, "")
	if err := sessions[0].Fail(errors.New("reset"), 1); !strings.Contains(err.Error(), "was killed by signal 9 (SIGKILL); 1 other rank lost its connection to it") {
		t.Error(err)
	}
}

// TestSilentRank: a rank whose status function blocks sends no heartbeats.
func TestSilentRank(t *testing.T) {
	patient.Try(t, 400*time.Millisecond, func(timeout time.Duration) error {
		s := serve(t, Config{Size: 2, Timeout: timeout, Settle: 20 * time.Millisecond})
		sessions, err := tryJoinAll(t, s, Options{})
		if err != nil {
			return err
		}
		stuck := make(chan struct{})
		sessions[1].Watch(func() rank.Status { <-stuck; return rank.Status{} })
		wait(t, "the verdict", sessions[0].Aborted())
		close(stuck)
		if v := s.Verdict(); v.Kind != rank.Silent || v.Rank != 1 || v.Quiet < min(timeout, 4*time.Second) {
			return v
		}
		return nil
	})
}

func TestMissingRank(t *testing.T) {
	patient.Try(t, 300*time.Millisecond, func(timeout time.Duration) error {
		s := serve(t, Config{Size: 3, Timeout: timeout})
		want := fmt.Sprintf("1 of 3 ranks did not join within %v of the last that did: rank 2", timeout)
		for r, err := range all(2, func(r int) error {
			_, err := Join(t.Context(), world(s, r), "", Options{})
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("rank %d: %v, want %s", r, err, want)
			}
		}
		return nil
	})
}

func TestRefusals(t *testing.T) {
	s := serve(t, Config{Size: 2, Generation: 1, Version: "v1"})
	for _, c := range []struct {
		change func(*rank.World, *Options)
		want   string
	}{
		{func(w *rank.World, o *Options) { w.Size, w.LocalSize = 3, 3 }, "a world of size 3 joins a group of size 2"},
		{func(w *rank.World, o *Options) { w.Generation = 0 }, "generation 0 joins generation 1"},
		{func(w *rank.World, o *Options) { o.Version = "v2" }, `version "v2"`},
		{func(w *rank.World, o *Options) { w.Rank = 2 }, "rank 2 is not within 0 … 1"},
		{func(w *rank.World, o *Options) { w.Key = rank.Key{} }, "no coordinator or no key"},
	} {
		w, o := world(s, 1), Options{Version: "v1"}
		c.change(&w, &o)
		if _, err := Join(t.Context(), w, "", o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	patient.Try(t, 200*time.Millisecond, func(timeout time.Duration) error { // the rank retries until this timeout
		w := world(s, 1)
		w.Key = rank.NewKey()
		_, err := Join(t.Context(), w, "", Options{Timeout: timeout})
		if err == nil || !strings.Contains(err.Error(), "does not hold this job's key; another job listens there") {
			return fmt.Errorf("with another key: %v", err)
		}
		return nil
	})
	for _, c := range []Config{{}, {Size: 1, Timeout: -time.Second}, {Size: 1, Settle: -1}, {Size: 1, Generation: -1}, {Size: 1, Timeout: 2 * rank.MaxTimeout}} {
		if _, err := Serve(nil, c); err == nil {
			t.Errorf("an invalid configuration is served: %+v", c)
		}
	}
	if _, err := Join(t.Context(), world(s, 1), "", Options{Timeout: -time.Second}); err == nil || err.Error() != "control: timeout -1s: must be positive" {
		t.Error(err)
	}
	if _, err := Enter(t.Context(), world(s, 1), "", Options{Timeout: -1}); err == nil || err.Error() != "control: timeout -1ns: must be positive" {
		t.Error(err)
	}
	// The job still forms, and a second rank 0 is rejected.
	sessions := joinAll(t, s, Options{Version: "v1"})
	if _, err := Join(t.Context(), world(s, 0), "", Options{Version: "v1"}); err == nil || !strings.Contains(err.Error(), "rank 0 is already here") {
		t.Error(err)
	}
	for r, err := range all(2, func(r int) error { return sessions[r].Done(nil) }) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestStrangersDoNoHarm: connections that do not use TLS, send nothing or send half a Hello
// do not disturb a job, even if there are more of them than are kept, before the ranks join
// or meanwhile.
func TestStrangersDoNoHarm(t *testing.T) {
	s := serve(t, Config{Size: 2})
	var strangers sync.WaitGroup
	for range 3 {
		strangers.Go(func() {
			for i := range 2 * unprovenMax {
				conn, err := net.Dial("tcp", s.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				conn.Write([]byte([]string{"GET / HTTP/1.1\r\n\r\n", "", "\x16\x03\x01\x02"}[i%3]))
			}
		})
	}
	joinAll(t, s, Options{})
	strangers.Wait()
}

// raw opens a stream without a Session, to send invalid messages.
func raw(t *testing.T, s *Server) controlpb.Control_AttendClient {
	t.Helper()
	l, err := try(t.Context(), func() (string, rank.Key, error) { return s.Addr(), s.config.Key, nil })
	fatal.If(t, err)
	c, err := l.client()
	fatal.If(t, err)
	t.Cleanup(func() { c.Close() })
	stream, err := controlpb.NewControlClient(c).Attend(t.Context())
	fatal.If(t, err)
	return stream
}

func hello(protocol uint32, r, size int) *controlpb.FromRank {
	return &controlpb.FromRank{What: &controlpb.FromRank_Hello{Hello: &controlpb.Hello{Protocol: protocol,
		Member: &controlpb.Member{Rank: int64(r), Size: int64(size)}}}}
}

func TestBadMessages(t *testing.T) {
	s := serve(t, Config{Size: 1})
	for _, c := range []struct {
		first *controlpb.FromRank
		want  string
	}{
		{&controlpb.FromRank{}, "the first message is not Hello"},
		{hello(protocol+1, 0, 1), "the rank speaks version 3 of the protocol, the coordinator version 2"},
		{hello(protocol, -1, 1), "rank -1 joins a group of size 1"},
		{hello(protocol, 1<<40, 1), "joins a group of size 1"},
	} {
		stream := raw(t, s)
		stream.Send(c.first)
		if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if s.Verdict() != nil {
		t.Errorf("strangers ended the job: %v", s.Verdict())
	}
	// A member that sends an invalid message is lost.
	stream := raw(t, s)
	stream.Send(hello(protocol, 0, 1))
	stream.Send(&controlpb.FromRank{})
	wait(t, "the verdict", s.Ended())
	if v := s.Verdict(); v.Kind != rank.Lost {
		t.Error(v)
	}
}

// TestPlainConnectionIsRefused: no message is read without TLS.
func TestPlainConnectionIsRefused(t *testing.T) {
	s := serve(t, Config{Size: 1})
	c, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient.Longest)
	defer cancel()
	stream, err := controlpb.NewControlClient(c).Attend(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Error("a connection without TLS is served")
	}
}

func TestOrders(t *testing.T) {
	host := newWitness()
	s := serve(t, Config{Size: 2, Host: host})
	sessions := joinAll(t, s, Options{})
	s.Order(Checkpoint)
	s.Order(Stacks)
	s.Order(Stop)
	for _, session := range sessions {
		for _, want := range []Order{Checkpoint, Stop} {
			select {
			case got := <-session.Orders():
				if got != want {
					t.Errorf("order %s, want %s", got, want)
				}
			case <-time.After(patient.Longest):
				t.Fatalf("no order %s", want)
			}
		}
	}
	host.until(t, "stacks", func() bool {
		return strings.Contains(host.reports["0 stacks"], "goroutine ") && strings.Contains(host.reports["1 stacks"], "control.TestOrders")
	})
	// Orders that no rank receives do not block.
	for range 500 {
		s.Order(Checkpoint)
	}
	for r, err := range all(2, func(r int) error { return sessions[r].Done(nil) }) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestCoordinatorGone(t *testing.T) {
	s := serve(t, Config{Size: 2})
	sessions := joinAll(t, s, Options{})
	s.Close()
	for r, session := range sessions {
		wait(t, "the news", session.Aborted())
		var v *rank.Verdict
		if err := session.Err(); !errors.As(err, &v) || v.Kind != rank.Gone || err.Error() != "the launcher is gone" {
			t.Errorf("rank %d: %v", r, err)
		}
		if err := session.Fail(errors.New("mine"), -1); err == nil {
			t.Error("Fail returns nil")
		}
	}
}

// TestStoppedCoordinator: messages that arrived while the coordinator was stopped are
// processed before any rank is declared silent.
func TestStoppedCoordinator(t *testing.T) {
	patient.Try(t, 400*time.Millisecond, func(timeout time.Duration) error {
		s := serve(t, Config{Size: 2, Timeout: timeout})
		sessions, err := tryJoinAll(t, s, Options{})
		if err != nil {
			return err
		}
		waiting := func() rank.Status { return rank.Status{Phase: "pull", Step: 351, Waits: true} }
		sessions[0].Watch(waiting)
		sessions[1].Watch(waiting)
		stopped := make(chan struct{})
		s.post(func(time.Duration) {
			close(stopped)
			time.Sleep(timeout * 5 / 2) // equivalent to SIGSTOP: only the loop reads the clock
		})
		<-stopped
		return errors.Join(all(2, func(r int) error {
			time.Sleep(time.Duration(1-r) * 50 * time.Millisecond)
			return sessions[r].Done(nil)
		})...)
	})
}

func TestLimits(t *testing.T) {
	host := newWitness()
	s := serve(t, Config{Size: 1, Host: host})
	session := joinAll(t, s, Options{})[0]
	if err := session.Done(make([]byte, maxResult+1)); err == nil || !strings.Contains(err.Error(), "at most 4194304 are allowed") {
		t.Error(err)
	}
	session.Watch(func() rank.Status {
		return rank.Status{Phase: strings.Repeat("p", 2*maxText), Position: "\xff\xfe", Step: 1}
	})
	host.until(t, "a cut status", func() bool {
		st := host.statuses[0]
		return len(st.Phase) == maxText && st.Position == "�"
	})
	err := session.Fail(errors.New(strings.Repeat("x", 1<<20)), -1)
	if n := len(err.Error()); n > maxCause+2*maxText+200 || n < maxCause {
		t.Errorf("a cause of %d bytes was returned", n)
	}
}

func TestCancelledJoin(t *testing.T) {
	s := serve(t, Config{Size: 2})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("changed my mind")) })
	if _, err := Join(ctx, world(s, 0), "", Options{}); err == nil || !strings.Contains(err.Error(), "changed my mind") {
		t.Error(err)
	}
}

// TestWordIsPassedOn: Config.Word is called for events that may lead to a verdict.
func TestWordIsPassedOn(t *testing.T) {
	const line = "rank 1 has given no sign of life for 2s"
	told := make(chan string, 1)
	for _, word := range []func(string){nil, func(line string) { told <- line }} {
		s, err := Serve(listen(t), Config{Key: rank.NewKey(), Size: 2, Word: word})
		fatal.If(t, err)
		s.post(func(time.Duration) { s.act(rank.Decision{Act: rank.Tell, Word: line}) })
		done := make(chan struct{})
		s.post(func(time.Duration) { close(done) })
		<-done
		s.Close()
	}
	if len(told) != 1 || <-told != line {
		t.Error("no rank was notified")
	}
}
