package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// keySize is the length of a job key in bytes.
const keySize = 32

const (
	version     = 3 // 1 had no streams, 2 sent no cores
	helloMagic  = "WDLR"
	helloSize   = 64
	answerSize  = 72
	proofSize   = sha256.Size
	verdictSize = 8
	linkControl = 0xFFFF
	roleAccepts = "wdlrun tcp accept"
	roleDials   = "wdlrun tcp dial "
	maxChannels = 1 << 10
)

// status is the decision of the accepting rank about a link.
type status uint16

const (
	statusOK status = iota
	statusVersion
	statusWorld
	statusGeneration
	statusRank
	statusKey
	statuses
)

var statusNames = [statuses]string{
	"accepted",
	"it speaks another version of the protocol: start all ranks from the same program",
	"it has another world size, number of channels or streams, or choice of encryption: start all ranks with the same options",
	"it belongs to another generation (formation of the group): is a rank of an earlier start still running?",
	"it is another rank than the one dialed: check the list of addresses",
	"it has another job key: is it a rank of another job?",
}

func (s status) String() string {
	if s >= statuses {
		return fmt.Sprintf("reason %d, unknown to this version", uint16(s))
	}
	return statusNames[s]
}

// hello is the first message of the dialing rank.
type hello struct {
	link       uint16
	from, to   uint32
	size       uint32
	channels   uint16
	streams    uint8
	secured    bool
	generation uint64
	nonce      [32]byte
}

func (h hello) append(b []byte) []byte {
	b = appendOpening(b, h.link)
	b = binary.LittleEndian.AppendUint32(b, h.from)
	b = binary.LittleEndian.AppendUint32(b, h.to)
	b = binary.LittleEndian.AppendUint32(b, h.size)
	b = binary.LittleEndian.AppendUint16(b, h.channels)
	b = append(b, 0, h.streams)
	if h.secured {
		b[len(b)-2] = 1
	}
	b = binary.LittleEndian.AppendUint64(b, h.generation)
	return append(b, h.nonce[:]...)
}

// parseHello reads a hello of this version.
func parseHello(b [helloSize]byte) (h hello, err error) {
	if _, h.link, err = parseOpening([verdictSize]byte(b[:verdictSize])); err != nil {
		return h, err
	}
	h.from = binary.LittleEndian.Uint32(b[8:])
	h.to = binary.LittleEndian.Uint32(b[12:])
	h.size = binary.LittleEndian.Uint32(b[16:])
	h.channels = binary.LittleEndian.Uint16(b[20:])
	h.generation = binary.LittleEndian.Uint64(b[24:])
	copy(h.nonce[:], b[32:])
	h.secured, h.streams = b[22] == 1, b[23]
	if b[22] > 1 {
		return h, errors.New("its hello has bytes set that must be zero")
	}
	return h, nil
}

// judge checks a hello against the group described by want, as rank own.
func (h hello) judge(want hello, own uint32) (status, error) {
	switch {
	case h.size != want.size || h.channels != want.channels:
		return statusWorld, fmt.Errorf("it has %d ranks and %d channels, this rank %d and %d", h.size, h.channels, want.size, want.channels)
	case h.streams != want.streams:
		return statusWorld, fmt.Errorf("it has %d streams a channel, this rank %d", h.streams, want.streams)
	case h.secured != want.secured:
		return statusWorld, fmt.Errorf("its encrypted links: %t, this rank: %t", h.secured, want.secured)
	case h.generation != want.generation:
		return statusGeneration, fmt.Errorf("it is of generation %d, this rank of %d", h.generation, want.generation)
	case h.to != own || h.from <= own || h.from >= h.size:
		return statusRank, fmt.Errorf("it claims to be rank %d dialing rank %d, this is rank %d of %d", h.from, h.to, own, h.size)
	case int(h.link) >= int(h.channels)*int(h.streams) && h.link != linkControl:
		return statusWorld, fmt.Errorf("it asks for link %d of %d channels with %d streams", h.link, h.channels, h.streams)
	}
	return statusOK, nil
}

// answer is the reply of the accepting rank to a hello that it does not reject.
type answer struct {
	nonce [32]byte
	proof [proofSize]byte
}

func (a answer) append(b []byte) []byte {
	b = appendOpening(b, uint16(statusOK))
	b = append(b, a.nonce[:]...)
	return append(b, a.proof[:]...)
}

// parseAnswer parses the part of an answer after the opening.
func parseAnswer(b [answerSize - verdictSize]byte) (a answer) {
	copy(a.nonce[:], b[:32])
	copy(a.proof[:], b[32:])
	return a
}

// appendOpening appends the first eight bytes of every message except the proof: magic,
// version, and the link of a hello or the status of a reply.
func appendOpening(b []byte, field uint16) []byte {
	b = append(b, helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	return binary.LittleEndian.AppendUint16(b, field)
}

func parseOpening(b [verdictSize]byte) (v, field uint16, err error) {
	if string(b[:4]) != helloMagic {
		return 0, 0, fmt.Errorf("it began with %q: it is not a rank of a job", b)
	}
	return binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:]), nil
}

// prove computes a proof of the key for one role in one handshake.
func prove(key []byte, role string, h hello, nonce [32]byte) (p [proofSize]byte) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(role))
	mac.Write(h.append(nil))
	mac.Write(nonce[:])
	mac.Sum(p[:0])
	return p
}

func sameProof(a, b [proofSize]byte) bool { return hmac.Equal(a[:], b[:]) }

func newNonce() (n [32]byte) {
	rand.Read(n[:]) // never fails: the program ends if the system has no randomness
	return n
}
