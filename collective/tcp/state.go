package tcp

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

// Transport is this process's end of a connected group. It implements
// collective.Transport.
type Transport struct {
	rank, size int
	streams    int         // per channel
	stripe     int         // bytes per stream
	peers      []*peer     // by rank; nil for this rank
	slots      []slot      // by channel
	direct     bool        // all data links are sockets; otherwise none is
	together   atomic.Bool // another rank is in this process
	near       int         // number of peers on this host
	roomy      atomic.Bool // each rank of this host can have a core

	mu    sync.Mutex
	mates []int         // process IDs of peers on this host, as received so far
	cause error         // the first cause, or nil
	ended chan struct{} // closed when cause is set and sent to every peer

	linksMu sync.Mutex // held while links are roused or closed
	gone    bool       // links are closed

	over    atomic.Bool // ended, or closed
	closed  atomic.Bool
	closing sync.Once
	quit    chan struct{}
	wg      sync.WaitGroup
}

// peer is another rank.
type peer struct {
	rank        int
	near        bool // on this host
	control     *control
	lastControl atomic.Int64  // arrival of its last control frame, Unix time in ns
	left        chan struct{} // closed by its goodbye
	data        []*link       // by channel, then by stream
	begun       []begun       // by channel; mu of the slot guards it
}

// begun counts the messages that this rank has begun to send to a peer and to receive from
// it.
type begun struct{ sends, awaits uint64 }

// link is one stream for the data of one channel with one peer. It has either sock, on
// which the caller of Exchange sends and receives, or conn, on which the caller receives
// and a writer goroutine sends. A secured link with sock also has conn and under, through
// which its bytes pass.
type link struct {
	peer  *peer
	sock  *socket
	conn  net.Conn
	under *pipe

	packets, again uint32 // counters of sock at the last call of Resent

	jobs    chan struct{} // a value makes the writer send vec
	done    chan error    // result of the writer; holds one
	stopped chan struct{} // closed when the writer has ended

	out  []byte    // header, or a whole small frame
	vec  [2][]byte // unsent rest of the current frame
	bufs net.Buffers

	head   [frameSize]byte // of the frame being received
	theirs uint32          // core of the peer at its last frame; 0: unknown
	length int             // of the whole message, of which the payload is a part
	recv   []byte          // destination of the payload
	got    int             // bytes of the frame received so far
	join   bool            // the payload is joined with recv instead of overwriting it
	landed []byte          // buffer for a payload that is joined
	joined int             // bytes of the payload joined so far
	r      *bufio.Reader   // of conn
}

// lane is the part of an exchange that one stream carries, or one of several exchanges made
// at once.
type lane struct {
	out, in *link  // nil: nothing
	step    uint32 // added to the step of the tag

	// Used in the first of the lanes that wait together.
	waiter waiter
	mover  cores.Mover

	// Directions in which the lane sleeps; guarded by mu of the slot.
	blockedOut, blockedIn bool

	// Sleeps so far, sleeps at the last look, and consecutive looks during the same sleep;
	// guarded by mu of the slot.
	naps, napsSeen uint64
	still          int

	jobs chan collective.Tag // exchanges to move, for a lane with a goroutine
	done chan error          // result of an exchange; holds one
}

// pipe is the plain connection under a secured one. Without sock, its calls block. With
// sock they do not: Read returns again if nothing has arrived, and Write keeps bytes for
// flush.
type pipe struct {
	*net.TCPConn
	sock *socket
	more bool   // more bytes follow: the system may send them in the same packet
	kept []byte // written, not yet accepted by the system
	at   int    // bytes of kept that the system has accepted

	buf   []byte // aheadBytes, allocated by the first read
	ahead []byte // part of buf that is received but unread
}

// slot is the state of the exchange in progress on one channel.
type slot struct {
	mu      sync.Mutex
	waiting bool
	serial  uint64 // number of the exchange
	seen    uint64 // serial at the last look
	stall   uint   // earlier looks at which the same exchange was seen

	lanes []lane // parts of an exchange, by stream
	posts []lane // exchanges made at once

	shutting bool      // no more exchanges may begin
	left     sync.Cond // signals that an exchange has ended
}

// control is the control connection to one peer.
type control struct {
	conn   net.Conn
	mu     sync.Mutex
	broken bool // a write failed; the reader returns the error
}

// of returns the tag of the lane's exchange, if the first has tag.
func (n *lane) of(tag collective.Tag) collective.Tag {
	tag.Step += n.step
	return tag
}

// ready reports whether a socket that the lane waits for can move bytes now. The caller
// holds mu of the slot, and the lane sleeps.
func (n *lane) ready() bool {
	return n.blockedIn && n.in.sock.ready(false) || n.blockedOut && n.out.sock.ready(true)
}

func (p *peer) hasLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

// segmentBytes is the most that one system call moves. One call that finds all its bytes
// costs less than several that find some of them. The segment is small enough that sending
// and receiving alternate and the data stays in a core's cache.
const segmentBytes = 1 << 20
