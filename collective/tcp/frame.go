package tcp

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	frameMagic   = "WDF1"
	frameSize    = 8 + collective.TagSize + 8
	controlMagic = "WDC1"
	controlSize  = 12
)

// appendFrame appends the header of a data frame with n bytes of payload. core is the
// sender's core, or 0.
func appendFrame(b []byte, tag collective.Tag, n int, core uint32) []byte {
	b = append(b, frameMagic...)
	b = binary.LittleEndian.AppendUint32(b, core)
	b = tag.Append(b)
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

// parseFrame reads the header of a data frame.
func parseFrame(b []byte) (tag collective.Tag, n int64, core uint32, err error) {
	if len(b) != frameSize || string(b[:4]) != frameMagic {
		return tag, 0, 0, fmt.Errorf("frame header %x is not one of this protocol", b[:min(len(b), 8)])
	}
	if tag, err = collective.ParseTag(b[8 : 8+collective.TagSize]); err != nil {
		return tag, 0, 0, err
	}
	u := binary.LittleEndian.Uint64(b[8+collective.TagSize:])
	if u > 1<<62 {
		return tag, 0, 0, fmt.Errorf("frame header announces %d bytes", u)
	}
	return tag, int64(u), binary.LittleEndian.Uint32(b[4:]), nil
}

// kind is the type of a control frame.
type kind uint16

const (
	kindAbort kind = iota + 1
	kindGoodbye
	kindProbe
	kindProcess
)

// controlFrame is one parsed control frame. Only the field of its kind is set.
type controlFrame struct {
	kind  kind
	cause error
	pid   uint32
}

// controlOf returns a whole control frame.
func controlOf(k kind, payload []byte) []byte {
	b := []byte(controlMagic)
	b = binary.LittleEndian.AppendUint16(b, uint16(k))
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// readControl reads one control frame. It allocates at most collective.MaxCause bytes.
func readControl(r io.Reader) (controlFrame, error) {
	var head [controlSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return controlFrame{}, err
	}
	k := kind(binary.LittleEndian.Uint16(head[4:]))
	n := binary.LittleEndian.Uint32(head[8:])
	if string(head[:4]) != controlMagic || head[6]|head[7] != 0 || n > collective.MaxCause {
		return controlFrame{}, fmt.Errorf("control frame header %x is not one of this protocol", head)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return controlFrame{}, fmt.Errorf("control frame of %d bytes was cut off: %w", n, err)
	}
	return parseControl(k, payload)
}

func parseControl(k kind, payload []byte) (f controlFrame, err error) {
	f.kind = k
	switch k {
	case kindAbort:
		f.cause, err = collective.ParseCause(payload)
	case kindGoodbye, kindProbe:
		if len(payload) != 0 {
			err = fmt.Errorf("control frame of kind %d with %d bytes, want none", k, len(payload))
		}
	case kindProcess:
		if len(payload) != 4 {
			return f, fmt.Errorf("process frame of %d bytes", len(payload))
		}
		f.pid = binary.LittleEndian.Uint32(payload)
	default:
		err = fmt.Errorf("control frame of unknown kind %d", k)
	}
	return f, err
}

// nothing is the result of a socket call that would have had to wait.
const nothing = -1
