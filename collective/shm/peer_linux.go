package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
)

// Kinds of packets.
const (
	kindWindow byte = iota + 1
	kindNone
	kindAbort
	kindGoodbye
)

const (
	headSize    = 1 + 2 + 4 + 8 // of kindWindow and kindNone
	packetMax   = headSize + collective.MaxCause
	noneText    = 512 // bytes of the reason why there is no window
	pageChannel = 0xFFFF
	// packetTime bounds the write of a packet. Packets are few and fit into the socket's
	// buffer, unless the peer has not read for a long time.
	packetTime = time.Second
	// windowsMax bounds the windows that a peer has announced and this rank has not
	// requested.
	windowsMax = maxChannels + 1
)

// peer is another rank.
type peer struct {
	rank int
	conn *net.UnixConn
	page page
	left chan struct{} // closed by its goodbye

	writing sync.Mutex
	broken  bool // a write failed; the reader returns the error

	mu      sync.Mutex
	windows map[windowID]offer // received and not requested yet
	came    chan struct{}      // closed and replaced when a window arrives
}

type windowID struct {
	channel uint16
	number  uint32
}

// offer is a peer's announcement: a mapped window, or the reason why there is none.
type offer struct {
	memory
	length int
	why    error
}

func (p *peer) hasLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

// write sends a packet, with a file if fd is not negative. If it fails, the connection is
// broken as well, and its reader reports that.
func (p *peer) write(b []byte, fd int) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.broken {
		return
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	p.conn.SetWriteDeadline(time.Now().Add(packetTime))
	if _, _, err := p.conn.WriteMsgUnix(b, rights, nil); err != nil {
		p.broken = true
	}
}

func appendWindow(kind byte, id windowID, length int, text string) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{kind}, id.channel)
	b = binary.LittleEndian.AppendUint32(b, id.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	return append(b, text[:min(len(text), noneText)]...)
}

// readPeer reads the packets of a peer until its connection ends.
func (t *Transport) readPeer(p *peer) {
	buf, oob := make([]byte, packetMax+1), make([]byte, unix.CmsgSpace(4*4))
	reset := false
	for {
		n, k, flags, _, err := p.conn.ReadMsgUnix(buf, oob)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if errors.Is(err, unix.ECONNRESET) && !reset {
			reset = true // the peer closed with packets unread; its last packets can still be read
			continue
		}
		if err == nil {
			var fds []int
			if fds, err = files(oob[:k]); err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
				err = errors.New("it sent a packet that is too long")
			}
			if err == nil {
				err = t.handlePacket(p, buf[:n], fds)
			}
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
		if err != nil {
			if !t.closed.Load() && !p.hasLeft() {
				t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: err})
			}
			return
		}
	}
}

// files returns the file descriptors that came with a packet.
func files(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, some...)
	}
	return fds, nil
}

// handlePacket processes one packet.
func (t *Transport) handlePacket(p *peer, b []byte, fds []int) error {
	switch kind := b[0]; {
	case (kind == kindWindow || kind == kindNone) && len(b) >= headSize && len(fds) == int(2-kind):
		return t.handleWindow(p, b, fds)
	case kind == kindAbort:
		cause, err := collective.ParseCause(b[1:])
		if err != nil {
			return err
		}
		t.end(cause)
	case kind == kindGoodbye:
		if !p.hasLeft() {
			close(p.left)
			t.wake()
		}
	default:
		return fmt.Errorf("it sent a packet of kind %d with %d bytes and %d files", kind, len(b), len(fds))
	}
	return nil
}

// handleWindow maps an arriving window, or records the reason why there is none.
func (t *Transport) handleWindow(p *peer, b []byte, fds []int) error {
	id := windowID{binary.LittleEndian.Uint16(b[1:]), binary.LittleEndian.Uint32(b[3:])}
	length := binary.LittleEndian.Uint64(b[7:])
	if length > maxWindow {
		return fmt.Errorf("it announced a window of %d bytes, at most %d are allowed", length, int64(maxWindow))
	}
	o := offer{length: int(length)}
	if b[0] == kindWindow {
		m, err := attach(fds[0], o.length)
		if err != nil {
			o.why = fmt.Errorf("rank %d cannot map it: %w", t.rank, err)
		}
		o.memory = m
	} else {
		o.why = errors.New(string(b[headSize:]))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, twice := p.windows[id]; twice || len(p.windows) == windowsMax || t.closed.Load() {
		o.unmap()
		return fmt.Errorf("it announced window %d of channel %d twice, or more than %d at once", id.number, id.channel, windowsMax)
	}
	p.windows[id] = o
	close(p.came)
	p.came = make(chan struct{})
	return nil
}

// window waits for a window of p.
func (t *Transport) window(p *peer, id windowID, stop <-chan struct{}) (offer, error) {
	for {
		p.mu.Lock()
		o, ok := p.windows[id]
		delete(p.windows, id)
		came := p.came
		p.mu.Unlock()
		if ok {
			return o, nil
		}
		select {
		case <-came:
		case <-t.ended:
			return offer{}, t.standing()
		case <-t.quit:
			return offer{}, collective.ErrClosed
		case <-stop:
			return offer{}, fmt.Errorf("no page from rank %d", p.rank)
		case <-p.left:
			return offer{}, t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: collective.ErrLeft})
		}
	}
}
