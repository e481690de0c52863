package commit

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// samples holds one message of each kind, with every field it may have.
func samples() []Message {
	t := Tag{MakeTerm(2, 3, 4), 77, 5, 9}
	q := Queue{Epoch: 1, Total: 100, Size: 8, Next: 48, Late: []Item{{Batch{1, 16, 8}, 2}, {Batch{1, 0, 8}, 1}}}
	ps := []Piece{{0, 0, Batch{1, 24, 8}}, {3, 12, Batch{1, 32, 8}}}
	r := Record{Step: 76, Leased: 4, Pieces: ps, Samples: 16, Queue: q, Cut: true}
	return []Message{
		{Kind: Ask, From: Lead, To: 3, Tag: t},
		{Kind: State, From: 3, To: Lead, Tag: t, Digest: 1 << 63, Record: &r, Staged: ps},
		{Kind: Fenced, From: 3, To: Lead, Tag: t, Rules: 1 << 50},
		{Kind: Lease, From: Lead, To: 3, Tag: t, Batch: ps[0].Batch, Owners: []int{0, 2, 65535}},
		{Kind: Cancel, From: Lead, To: 3, Tag: t},
		{Kind: Withdraw, From: Lead, To: 3, Tag: t},
		{Kind: Ready, From: 3, To: Lead, Tag: t, Done: 255, Failed: true},
		{Kind: Pull, From: 3, To: 0, Tag: t, Dense: true},
		{Kind: Rows, From: 0, To: 3, Tag: t, Dense: true, Digest: 7},
		{Kind: Push, From: 3, To: 0, Tag: t, Batch: ps[1].Batch, Digest: 7},
		{Kind: Staged, From: 0, To: Lead, Tag: t},
		{Kind: Stale, From: 0, To: 3, Tag: t, Rules: 1 << 51, Failed: true},
		{Kind: Commit, From: Lead, To: 3, Tag: t, Record: &r},
		{Kind: Applied, From: 3, To: Lead, Tag: t},
	}
}

func TestWireRoundTrip(t *testing.T) {
	if len(samples()) != kinds {
		t.Fatalf("%d samples of %d kinds", len(samples()), kinds)
	}
	for _, m := range samples() {
		b := AppendMessage(nil, m)
		got, err := ParseMessage(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v: %v", m, got, err)
		}
		for n := range b {
			if _, err := ParseMessage(b[:n]); err == nil {
				t.Errorf("kind %d: the first %d of %d bytes pass for a message", m.Kind, n, len(b))
			}
		}
		if _, err := ParseMessage(append(b, 0)); err == nil {
			t.Errorf("kind %d: a byte too many passes", m.Kind)
		}
	}
}

func TestWireRefuses(t *testing.T) {
	lease := AppendMessage(nil, samples()[3])
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"another version", "version 2", append([]byte{2}, lease[1:]...)},
		{"an unknown kind", "kind 99", append([]byte{1, 99}, lease[2:]...)},
		{"a long count", "owners in", append(AppendMessage(nil, Message{Kind: Lease})[:11], 0xff, 0xff, 3)},
		{"a padded number", "shortest form", []byte{1, byte(Ask), 0x80, 0}},
		{"a rank beyond all", "above 65536", []byte{1, byte(Ask), 0xff, 0xff, 0xff, 1}},
	} {
		if _, err := ParseMessage(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, m := range samples() {
		f.Add(AppendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err == nil && !bytes.Equal(AppendMessage(nil, m), b) {
			t.Fatalf("%x is read as %+v, which is written as %x", b, m, AppendMessage(nil, m))
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, *samples()[1].Record))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		if !bytes.Equal(AppendRecord(nil, r), b) {
			t.Fatalf("%x is read as %+v, which is written as %x", b, r, AppendRecord(nil, r))
		}
		if err := r.Queue.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
