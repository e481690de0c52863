package registry

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

const (
	magic      = 0 // first byte of a frame
	frameBytes = 5

	maxKnown   = 1 << 12
	maxUnknown = 1 << 10
	forget     = time.Minute      // after which an id that did not exist is looked up again
	patience   = 20 * time.Second // below the limit after which a rank counts as stuck
)

// Flaw is the reason why a value cannot be read. Others can.
type Flaw string

func (f Flaw) Error() string { return string(f) }

// Cut returns the schema id and the rest of a framed value.
func Cut(value []byte) (id uint32, rest []byte, ok bool) {
	if len(value) < frameBytes || value[0] != magic {
		return 0, value, false
	}
	return binary.BigEndian.Uint32(value[1:]), value[frameBytes:], true
}

// Schemas are the schemas of a registry, or of files.
type Schemas struct {
	from     schema.Registry
	protobuf bool
	explode  string // list whose elements are records; "": none
	patience time.Duration

	fetching sync.Mutex // held while a schema is fetched
	client   *http.Client

	mu      sync.RWMutex
	known   map[schemaID]*written
	unknown map[schemaID]unknown
	stop    context.Context                         // ends the waiting; nil: never
	waits   func(cause error, lasted time.Duration) // called while a fetch waits; nil: it has patience
}

// unknown is a schema that does not exist or cannot be used.
type unknown struct {
	why Flaw
	at  time.Time
}

// written is a schema with which values were written.
type written struct {
	one      *Type            // of all values; nil: the one of the value's indexes
	messages map[string]*Type // of Protobuf, by their indexes
}

// New returns the schemas of a valid configuration for avro or protobuf. The elements of the list of the name
// explode are records; "": values are.
func New(from schema.Registry, format, explode string) *Schemas {
	return &Schemas{from: from, protobuf: format == "protobuf", explode: explode, patience: patience, known: map[schemaID]*written{}, unknown: map[schemaID]unknown{}}
}

// Wait makes fetches wait until the registry answers or ctx ends. notify is called while one waits,
// with the cause.
func (s *Schemas) Wait(ctx context.Context, notify func(cause error, lasted time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop, s.waits = ctx, notify
}

// Names calls each with the names of the fields in the schemas that were fetched.
func (s *Schemas) Names(each func(name []byte)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.known {
		if w.one != nil {
			w.one.names(each)
			continue
		}
		for _, t := range w.messages {
			if t.used.Load() {
				t.names(each)
			}
		}
	}
}

// Header is the name of the header of a record that may have the frame of its value.
const Header = "__value_schema_id"

const (
	guidMagic = 1 // first byte of a frame with a GUID, which only headers have
	guidBytes = 16
)

// schemaID is the id of a schema, or its GUID.
type schemaID struct {
	id   uint32
	guid [guidBytes]byte
}

func (x schemaID) String() string {
	if g := x.guid; g != [guidBytes]byte{} {
		return fmt.Sprintf("%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
	}
	return strconv.FormatUint(uint64(x.id), 10)
}

// cutFrame returns the schema id and the rest of a frame.
func cutFrame(frame []byte) (x schemaID, rest []byte, ok bool) {
	if len(frame) > guidBytes && frame[0] == guidMagic {
		return schemaID{guid: [guidBytes]byte(frame[1:])}, frame[1+guidBytes:], true
	}
	x.id, rest, ok = Cut(frame)
	return x, rest, ok
}

// of returns the type of a value and its message. header is its frame, nil if the value has it.
func (s *Schemas) of(ctx context.Context, header, value []byte) (*Type, []byte, error) {
	var id schemaID
	frame, rest := header, value
	switch {
	case s.from.Bare:
	case header != nil:
		var ok bool
		if id, frame, ok = cutFrame(header); !ok {
			return nil, nil, Flaw(fmt.Sprintf("its header %s is %.20x, and no frame of a schema registry: the byte 0 and an id of 4 bytes, or 1 and a GUID of 16", Header, header[:min(len(header), 20)]))
		}
	default:
		var ok bool
		if id.id, rest, ok = Cut(value); !ok {
			return nil, nil, Flaw(fmt.Sprintf("the value does not begin with the magic byte 0 and a schema id of 4 bytes, but with %.10x; if its producer writes no frame, set data.registry.bare with data.registry.files", value[:min(len(value), 10)]))
		}
	}
	w, err := s.schema(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if !s.protobuf || s.from.Bare {
		return w.one, rest, nil
	}
	if header == nil {
		frame = rest
	}
	key, after, err := indexes(frame)
	if err != nil {
		return nil, nil, Flaw(fmt.Sprintf("schema %v: %v", id, err))
	}
	if header == nil {
		rest = after
	}
	t := w.one
	if t == nil {
		t = w.messages[string(key)]
	}
	if t == nil {
		return nil, nil, Flaw(fmt.Sprintf("schema %v has no message of the indexes %x", id, key))
	}
	if !t.used.Load() {
		t.used.Store(true)
	}
	return t, rest, nil
}

// schema returns the schema of an id.
func (s *Schemas) schema(ctx context.Context, id schemaID) (*written, error) {
	if w, err := s.lookup(id); w != nil || err != nil {
		return w, err
	}
	s.fetching.Lock()
	defer s.fetching.Unlock()
	if w, err := s.lookup(id); w != nil || err != nil { // fetched meanwhile
		return w, err
	}
	w, err := s.await(ctx, id)
	var flaw Flaw
	if !errors.As(err, &flaw) && err != nil {
		return nil, fmt.Errorf("registry: %s: schema %v: %w", s.place(), id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && len(s.known) == maxKnown {
		flaw = Flaw(fmt.Sprintf("the values have more than %d schemas", maxKnown))
	}
	if flaw == "" {
		s.known[id] = w
		return w, nil
	}
	if len(s.unknown) == maxUnknown {
		clear(s.unknown)
	}
	if s.from.Bare {
		flaw = Flaw(fmt.Sprintf("%s: %s", s.place(), flaw))
	} else {
		flaw = Flaw(fmt.Sprintf("schema %v of %s: %s", id, s.place(), flaw))
	}
	s.unknown[id] = unknown{flaw, time.Now()}
	return nil, flaw
}

func (s *Schemas) place() string {
	if s.from.URL != "" {
		return s.from.URL
	}
	return s.from.Files
}

// lookup returns a schema that was fetched.
func (s *Schemas) lookup(id schemaID) (*written, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if w := s.known[id]; w != nil {
		return w, nil
	}
	if u, ok := s.unknown[id]; ok && time.Since(u.at) < forget {
		return nil, u.why
	}
	return nil, nil
}

// away is a failure that may be over later.
type away struct{ error }

func (e away) Unwrap() error { return e.error }

// await fetches a schema, and again while the registry is away.
func (s *Schemas) await(ctx context.Context, id schemaID) (*written, error) {
	s.mu.RLock()
	stop, waits := s.stop, s.waits
	s.mu.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if stop != nil {
		defer context.AfterFunc(stop, cancel)()
	}
	var last error
	for begin, pause := time.Now(), 10*time.Millisecond; ; pause = min(2*pause, time.Second) {
		w, err := s.fetch(ctx, id)
		if _, isAway := errors.AsType[away](err); !isAway {
			return w, err
		}
		lasted := time.Since(begin)
		switch {
		case ctx.Err() != nil:
			return nil, cmp.Or(last, err)
		case waits != nil:
			waits(fmt.Errorf("registry: %s: schema %v: %w", s.place(), id, err), lasted)
		case lasted > s.patience:
			return nil, fmt.Errorf("given up after %v: %w", s.patience, err)
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
