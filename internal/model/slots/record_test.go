package slots

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// sample returns a record with all fields set.
func sample() Record {
	q := Queue{Epoch: 1, Total: 100, Size: 8, Next: 48, Late: []Item{{Batch{1, 16, 8}, 2}, {Batch{1, 0, 8}, 1}}}
	ps := []Piece{{0, 0, Batch{1, 24, 8}}, {3, 12, Batch{1, 32, 8}}}
	return Record{Step: 76, Leased: 4, Pieces: ps, Samples: 16, Queue: q}
}

func TestRecordRoundTrip(t *testing.T) {
	b := appendRecord(nil, sample())
	if got, err := parseRecord(b); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%+v came back as %+v: %v", sample(), got, err)
	}
	for n := range b {
		if _, err := parseRecord(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes pass for a record", n, len(b))
		}
	}
	if _, err := parseRecord(append(b, 0)); err == nil {
		t.Error("a byte too many passes")
	}
}

func TestRecordRefuses(t *testing.T) {
	disordered, beyond := sample(), sample()
	disordered.Pieces[1].Slot, beyond.Pieces[1].Slot = 0, 4
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"a long count", "pieces in", []byte{76, 4, 0, 0xff, 3}},
		{"a padded number", "shortest form", []byte{0x80, 0}},
		{"more slots than there are", "above 4096", []byte{76, 0xff, 0xff, 1}},
		{"a reserved byte that is used", "reserved byte is 2", []byte{76, 4, 2}},
		{"slots out of order", "follows slot", appendRecord(nil, disordered)},
		{"a slot that was not leased", "slot 4 of 4", appendRecord(nil, beyond)},
	} {
		if _, err := parseRecord(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(appendRecord(nil, sample()))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		if !bytes.Equal(appendRecord(nil, r), b) {
			t.Fatalf("%x is read as %+v, which is written as %x", b, r, appendRecord(nil, r))
		}
		fatal.If(t, r.Queue.Validate())
	})
}
