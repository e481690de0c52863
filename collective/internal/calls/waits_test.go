package calls

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// TestWaits plays conversations: "0>1" rank 0 sends to rank 1, "0<1" rank 0
// awaits rank 1, "0>1<2" both at once, "0." its exchange is over; "/b" says that
// it does so in call b instead of a. A conversation that ends in a circle names
// two of its ranks.
func TestWaits(t *testing.T) {
	for _, k := range []struct {
		eager bool
		talk  string
		want  string
	}{
		{false, "0>1 1<0 0. 1.", ""},
		{false, "0>1/b 1>0", "ab"}, // both send
		{true, "0>1/b 1>0", ""},    // and go on
		{false, "0<1/b 1<0", "ab"}, // both wait
		{true, "0<1/b 1<0", "ab"},
		{true, "0>1 0. 1<0/b 0<1", ""}, // a message that waits is no wait
		{false, "0>1<2 1>2<0 2>0<1/b", ""},
		{false, "0>2<1/b 1>0<2/b 2>0<1", "ab"},       // 0 waits for 2, 2 for 0
		{false, "0>1<1/b 1>2<2 2>0<0", "ab"},         // in a circle of three
		{false, "0>1<1/b 1>2<2 2>3<3", ""},           // 3 may yet come
		{false, "0>1<1/b 1>2<2 2>3<3 3>1<1/b", "ab"}, // and comes wrongly; 0 is outside
		{true, "0>1<1/b 1>2<2 2>0<0", "ab"},
		{true, "0>1<2/b 1>2<0 2>0<1", ""}, // each finds a message
		{true, "0<1/b 1<2 2<0", "ab"},
		{false, "0>1<1 0. 0>1 1>0/b", "ab"}, // left and came again
	} {
		w := NewWaits(4, k.eager)
		var got *collective.MismatchError
		for _, word := range strings.Fields(k.talk) {
			word, in, _ := strings.Cut(word, "/")
			rank, to, from := int(word[0]-'0'), -1, -1
			if word[1] == '.' {
				w.Leave(rank)
				continue
			}
			for i := 1; i < len(word); i += 2 {
				if p := int(word[i+1] - '0'); word[i] == '>' {
					to = p
				} else {
					from = p
				}
			}
			tag := collective.Tag{Seq: uint64(1 + len(in)), Step: uint32(rank)}
			if err := w.Enter(rank, tag, to, from); err != nil && got == nil {
				got = err
			}
		}
		if (got != nil) != (k.want != "") {
			t.Errorf("eager %v: %s: %v", k.eager, k.talk, got)
		}
		if got != nil && got.Peer.Tag.SameCall(got.Own.Tag) {
			t.Errorf("%s: %v: sides are in one call", k.talk, got)
		}
	}
}
