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

	"github.com/wdlrun/wdlrun/internal/machine/cpus"
)

// Protocol is the version of the messages. Both sides run the same binary, except with
// Ship Never.
const Protocol = 1

// Kinds of messages.
const (
	Job     = "job"     // launcher: Protocol, Host, Dir, Env, Guard, Command[:1], Hash, Own, Ship, Size, Each, Key
	Want    = "want"    // host: it lacks the program of Hash
	Ready   = "ready"   // host: Addr at which ranks reach the coordinator, Addresses, Port
	Failed  = "failed"  // host: Text, Code; Rank if it concerns one
	Start   = "start"   // launcher: Rank, Command without the program, Env, Input
	Started = "started" // host: Rank, Pid
	Exit    = "exit"    // host: Rank, Code, Signal, Text if the reason is known
	Signal  = "signal"  // launcher: Sign to Rank, −1 for all
	Leaving = "leaving" // host: it was asked to end, as by a cluster that drains it
	Quit    = "quit"    // launcher: the ranks have ended
	Reach   = "reach"   // launcher: Targets to connect to
	Reached = "reached" // host: Trials
)

// Message is a message between launcher and host process. What determines the fields in use.
type Message struct {
	What     string
	Protocol int      `json:",omitempty"`
	Host     string   `json:",omitempty"` // name of the host at the launcher
	Dir      string   `json:",omitempty"` // working directory
	Env      []string `json:",omitempty"` // in addition to the host process's
	Guard    []string `json:",omitempty"` // arguments of the guard process; empty: no guard
	Command  []string `json:",omitempty"`
	Hash     string   `json:",omitempty"` // SHA-256 of the program, in hexadecimal digits
	Own      string   `json:",omitempty"` // SHA-256 of the launcher's binary
	Ship     string   `json:",omitempty"`
	Rank     int
	Size     int    `json:",omitempty"` // ranks on this host
	Each     Each   `json:",omitzero"`
	Input    bool   `json:",omitempty"` // the rank reads the standard input of the launcher
	Pid      int    `json:",omitempty"`
	Code     int    `json:",omitempty"`
	Signal   int    `json:",omitempty"`
	Sign     string `json:",omitempty"`
	Addr     string `json:",omitempty"`
	Text     string `json:",omitempty"`

	Key       string    `json:",omitempty"` // proves the identity of a host to the others; 64 hexadecimal digits
	Addresses []Address `json:",omitempty"`
	Port      int       `json:",omitempty"` // of the Listener
	Targets   []Target  `json:",omitempty"`
	Trials    []Trial   `json:",omitempty"`
}

// Each has the settings that are the same for every rank of a host.
type Each struct {
	Bind   cpus.Binding `json:",omitzero"`
	Memory int64        `json:",omitempty"` // bytes that must be available to a rank; 0: not checked
}

// Kinds of streams.
const (
	Output      = "output"      // host: output of Rank to FD
	Input       = "input"       // launcher: standard input of Rank
	Coordinator = "coordinator" // host: a connection of a rank to the coordinator
	Binary      = "program"     // launcher: the program, compressed with gzip
)

// Header is the first message of every stream except the control stream.
type Header struct {
	What string
	Rank int
	FD   int
}

const (
	maxMessage = 4 << 20
	maxHeader  = 4 << 10
)

// WriteJSON writes the length of v as JSON, and then v. The JSON has at most most bytes.
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

// ReadJSON reads a value that WriteJSON has written into v. The JSON has at most most bytes.
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

// Link is one end of the connection between the launcher and a host process.
type Link struct {
	session *yamux.Session
	conn    *timedConn
	control net.Conn
	mu      sync.Mutex // of writes to control
	limit   time.Duration

	paused atomic.Bool
	silent atomic.Bool
	gone   chan struct{}
}

// timedConn records when bytes were last received.
type timedConn struct {
	io.ReadWriteCloser
	begin time.Time
	last  atomic.Int64 // ns since begin
}

func newTimedConn(conn io.ReadWriteCloser) *timedConn {
	return &timedConn{ReadWriteCloser: conn, begin: time.Now()}
}

func (h *timedConn) Read(b []byte) (int, error) {
	n, err := h.ReadWriteCloser.Read(b)
	if n > 0 {
		h.last.Store(int64(time.Since(h.begin)))
	}
	return n, err
}

// idle returns the time since bytes were last received.
func (h *timedConn) idle() time.Duration { return time.Since(h.begin) - time.Duration(h.last.Load()) }

func newLink(s *yamux.Session, conn *timedConn, control net.Conn, limit time.Duration) *Link {
	l := &Link{session: s, conn: conn, control: control, limit: limit, gone: make(chan struct{})}
	go l.watch()
	return l
}

// watch pings the other side until it is gone. The other side is gone if it has sent no byte
// for limit, neither the answer to a ping nor a ping of its own.
func (l *Link) watch() {
	defer close(l.gone)
	silence := newSilence(time.Now(), l.limit)
	for every := time.Tick(pingEvery); ; {
		select {
		case <-l.session.CloseChan():
			return
		case now := <-every:
			if l.paused.Load() {
				silence.restart(now)
			}
			if silence.tooLong(now, l.conn.idle()) {
				l.silent.Store(true)
				return
			}
			go l.session.Ping() // the answer resets idle
		}
	}
}

// silence measures how long the other side has sent nothing while this process was running.
type silence struct {
	asked, began time.Time
	limit        time.Duration
}

func newSilence(now time.Time, limit time.Duration) *silence { return &silence{now, now, limit} }

// restart lets the silence begin now.
func (s *silence) restart(now time.Time) { s.began = now }

// tooLong reports whether the silence has reached its limit. It is called before each ping with
// the time since the last byte. If this process was stopped since the last call, it could not
// receive, and the silence begins now.
func (s *silence) tooLong(now time.Time, idle time.Duration) bool {
	if now.Sub(s.asked) > 4*pingEvery {
		s.restart(now)
	}
	s.asked = now
	return min(now.Sub(s.began), idle) >= s.limit
}

// Pause makes the link ignore the silence of the other side while on is true.
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

// Call returns the launcher's end of a link over conn.
func Call(conn io.ReadWriteCloser) (*Link, error) {
	timed := newTimedConn(conn)
	s, err := yamux.Client(timed, config(silentTime))
	if err != nil {
		return nil, err
	}
	control, err := s.Open()
	if err != nil {
		s.Close()
		return nil, err
	}
	return newLink(s, timed, control, silentTime), nil
}

// Answer returns the host process's end of a link over conn.
func Answer(conn io.ReadWriteCloser) (*Link, error) {
	timed := newTimedConn(conn)
	s, err := yamux.Server(timed, config(orphanTime))
	if err != nil {
		return nil, err
	}
	control, err := s.Accept()
	if err != nil {
		s.Close()
		return nil, err
	}
	return newLink(s, timed, control, orphanTime), nil
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

// Close closes the link and its connection. Reads of the connection must then return.
func (l *Link) Close() error { return l.session.Close() }

// Address is one address of a host.
type Address struct {
	IP        string
	Net       string // its network, such as 10.0.0.0/8
	Interface string
	Mbits     int `json:",omitempty"` // of the interface; 0: unknown
}

// Target is an address of another host to connect to.
type Target struct {
	Host string
	Addr string // with the port of its Listener
}

// Trial is the result of an attempt to reach a Target.
type Trial struct {
	Target
	Micros int    `json:",omitempty"` // from the first packet to the proof
	Fault  string `json:",omitempty"` // "": the target is its host
}
