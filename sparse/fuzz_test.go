package sparse

import (
	"encoding/binary"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzAnnouncement lets a peer announce arbitrary numbers. They must be rejected with an error
// that names the peer, or be within the limits.
func FuzzAnnouncement(f *testing.F) {
	s, err := Open(lying{Exchanger: Local{}}, Config{Shards: 4, MaxKeysPerExchange: 100, Tables: []Table{
		{Name: "x", Parts: []Part{{Name: "deep", Dim: 3}}}, {Name: "y", Parts: []Part{{Name: "deep", Dim: 1}}},
	}})
	fatal.If(f, err)
	l := s.NewLookup()
	word := func(words ...int64) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(w))
		}
		return b
	}
	f.Add(word(int64(s.print), 0, 0, 5, 6))
	f.Add(word(int64(s.print), 0, 1, 100, 1))
	f.Add(word(int64(s.print), 0, 0, -1, 1<<62))
	f.Add(word(int64(s.print), 4, 0, 0, 0))
	f.Add(word(1, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		a := make([]int64, announceWords+len(s.tables))
		for i := range a {
			if len(b) >= 8 {
				a[i], b = int64(binary.LittleEndian.Uint64(b)), b[8:]
			}
		}
		if l.readAnnouncement(1, a) != nil {
			return
		}
		sum := int64(0)
		for _, n := range l.give.counts[len(s.tables):] {
			if n < 0 {
				t.Fatalf("%d keys were accepted", n)
			}
			sum += n
		}
		if sum > 100 || uint64(a[0]) != s.print {
			t.Fatalf("accepted %v", a)
		}
		l.give.layout(s)
	})
}
