package hosts

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/wdlrun/wdlrun/internal/cpus"
)

// Protocol is the version of the conversation. Both sides run the same binary, except
// with Ship Never.
const Protocol = 1

// Kinds of messages.
const (
	Job     = "job"     // launcher: Protocol, Host, Dir, Env, Guard, Command[:1], Hash, Own, Ship, Size, Each, Key
	Want    = "want"    // host: the program of Hash is not there
	Ready   = "ready"   // host: Addr at which ranks reach the coordinator, Addresses, Port
	Failed  = "failed"  // host: Text, Code; Rank if it is about one
	Start   = "start"   // launcher: Rank, Command without the program, Env, Input
	Started = "started" // host: Rank, Pid
	Exit    = "exit"    // host: Rank, Code, Signal, Text if the reason is known
	Signal  = "signal"  // launcher: Sign to Rank, −1 for all
	Quit    = "quit"    // launcher: the ranks have ended
	Reach   = "reach"   // launcher: Targets to try
	Reached = "reached" // host: Trials
)

// Message is a message between launcher and host process. What determines the fields in use.
type Message struct {
	What     string
	Protocol int      `json:",omitempty"`
	Host     string   `json:",omitempty"` // as the launcher names it
	Dir      string   `json:",omitempty"` // working directory
	Env      []string `json:",omitempty"` // in addition to that of the host process
	Guard    []string `json:",omitempty"` // arguments of the guard process, none for none
	Command  []string `json:",omitempty"`
	Hash     string   `json:",omitempty"` // SHA-256 of the program, in hexadecimal digits
	Own      string   `json:",omitempty"` // SHA-256 of the launcher's binary
	Ship     string   `json:",omitempty"`
	Rank     int
	Size     int    `json:",omitempty"` // ranks on this host
	Each     Each   `json:",omitzero"`
	Input    bool   `json:",omitempty"` // the rank reads what the launcher does
	Pid      int    `json:",omitempty"`
	Code     int    `json:",omitempty"`
	Signal   int    `json:",omitempty"`
	Sign     string `json:",omitempty"`
	Addr     string `json:",omitempty"`
	Text     string `json:",omitempty"`

	Key       string    `json:",omitempty"` // that hosts prove to each other, 64 hexadecimal digits
	Addresses []Address `json:",omitempty"`
	Port      int       `json:",omitempty"` // of the Listener
	Targets   []Target  `json:",omitempty"`
	Trials    []Trial   `json:",omitempty"`
}

// Each is what every rank of a host gets.
type Each struct {
	Bind   cpus.Binding `json:",omitzero"`
	Memory int64        `json:",omitempty"` // bytes that must be available for it, 0 for no check
}

// Kinds of streams.
const (
	Output      = "output"      // host: what Rank writes to FD
	Input       = "input"       // launcher: what Rank reads
	Coordinator = "coordinator" // host: a connection of a rank to the coordinator
	Binary      = "program"     // launcher: compressed by gzip
)

// Header is the first message of a stream other than the first.
type Header struct {
	What string
	Rank int
	FD   int
}

const (
	maxMessage = 4 << 20
	maxHeader  = 4 << 10
)

// WriteJSON writes v as JSON with its length before it.
func WriteJSON(w io.Writer, v any, most int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > most {
		return fmt.Errorf("hosts: write: message of %d bytes, at most %d are allowed: pass fewer environment variables or shorter arguments", len(body), most)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...))
	return err
}

// ReadJSON reads into v what WriteJSON has written, at most most bytes.
func ReadJSON(r io.Reader, v any, most int) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(most) {
		return fmt.Errorf("hosts: read: message of %d bytes, at most %d are allowed", n, most)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("hosts: read: message of %d bytes: %w", n, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("hosts: read: message of %d bytes: %w", n, err)
	}
	return nil
}

// Link is one side of the conversation.
type Link struct {
	session *yamux.Session
	heard   *hearing
	control net.Conn
	mu      sync.Mutex // of writes to control
	limit   time.Duration

	paused atomic.Bool
	silent atomic.Bool
	gone   chan struct{}
}

// hearing notes when bytes last came from a stream.
type hearing struct {
	io.ReadWriteCloser
	begin time.Time
	last  atomic.Int64 // ns since begin
}

func hear(conn io.ReadWriteCloser) *hearing {
	return &hearing{ReadWriteCloser: conn, begin: time.Now()}
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.ReadWriteCloser.Read(b)
	if n > 0 {
		h.last.Store(int64(time.Since(h.begin)))
	}
	return n, err
}

// quiet is for how long no bytes have come.
func (h *hearing) quiet() time.Duration { return time.Since(h.begin) - time.Duration(h.last.Load()) }

func newLink(s *yamux.Session, heard *hearing, control net.Conn, limit time.Duration) *Link {
	l := &Link{session: s, heard: heard, control: control, limit: limit, gone: make(chan struct{})}
	go l.watch()
	return l
}

// watch pings the other side until it is gone. It is gone when no byte has come from it for
// limit: not the answer to a ping, and none of its own pings.
func (l *Link) watch() {
	defer close(l.gone)
	quiet := newSilence(time.Now(), l.limit)
	for every := time.Tick(pingEvery); ; {
		select {
		case <-l.session.CloseChan():
			return
		case now := <-every:
			if l.paused.Load() {
				quiet.end(now)
			}
			if quiet.tooLong(now, l.heard.quiet()) {
				l.silent.Store(true)
				return
			}
			go l.session.Ping() // its answer is heard
		}
	}
}

// silence is for how long nothing has come from the other side while this process was running.
type silence struct {
	asked, began time.Time
	limit        time.Duration
}

func newSilence(now time.Time, limit time.Duration) *silence { return &silence{now, now, limit} }

// end has the silence begin now.
func (s *silence) end(now time.Time) { s.began = now }

// tooLong is called with each ping, and with the time since something came. If this process
// was stopped since the last ping, it could not hear, and the silence begins now.
func (s *silence) tooLong(now time.Time, heard time.Duration) bool {
	if now.Sub(s.asked) > 4*pingEvery {
		s.end(now)
	}
	s.asked = now
	return min(now.Sub(s.began), heard) >= s.limit
}

// Pause has the silence of the other side mean nothing, as long as on is true.
func (l *Link) Pause(on bool) { l.paused.Store(on) }

// Silent reports whether the other side is gone without having closed the stream.
func (l *Link) Silent() bool { return l.silent.Load() }

func config(limit time.Duration) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 4096
	c.EnableKeepAlive = false // see watch
	c.ConnectionWriteTimeout = limit
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = 0
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	return c
}

// Call is the launcher's side of the conversation over conn.
func Call(conn io.ReadWriteCloser) (*Link, error) {
	heard := hear(conn)
	s, err := yamux.Client(heard, config(silentTime))
	if err != nil {
		return nil, err
	}
	control, err := s.Open()
	if err != nil {
		s.Close()
		return nil, err
	}
	return newLink(s, heard, control, silentTime), nil
}

// Answer is the host process's side.
func Answer(conn io.ReadWriteCloser) (*Link, error) {
	heard := hear(conn)
	s, err := yamux.Server(heard, config(orphanTime))
	if err != nil {
		return nil, err
	}
	control, err := s.Accept()
	if err != nil {
		s.Close()
		return nil, err
	}
	return newLink(s, heard, control, orphanTime), nil
}

// Send sends a message.
func (l *Link) Send(m Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return WriteJSON(l.control, m, maxMessage)
}

// Receive returns the next message.
func (l *Link) Receive() (m Message, err error) {
	err = ReadJSON(l.control, &m, maxMessage)
	return m, err
}

// Open opens a stream.
func (l *Link) Open(h Header) (net.Conn, error) {
	s, err := l.session.Open()
	if err != nil {
		return nil, err
	}
	if err := WriteJSON(s, h, maxHeader); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Accept returns the next stream that the other side opens.
func (l *Link) Accept() (h Header, stream net.Conn, err error) {
	if stream, err = l.session.Accept(); err != nil {
		return h, nil, err
	}
	if err = ReadJSON(stream, &h, maxHeader); err != nil {
		stream.Close()
		return h, nil, err
	}
	return h, stream, nil
}

// Gone is closed when the other side is gone.
func (l *Link) Gone() <-chan struct{} { return l.gone }

// Close ends the conversation, and closes the stream, whose reads must then return.
func (l *Link) Close() error { return l.session.Close() }
