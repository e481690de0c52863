package save

import (
	"strings"
	"testing"
)

// TestPlacementRefuses: owners and loads that a checkpoint of four shards cannot have.
func TestPlacementRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"ranks":3,"owner":[0,1,2],"wire_bytes":[1,1,1,1],"memory_bytes":[1,1,1,1]}`:    "of 4 shards",
		`{"ranks":3,"owner":[0,1,2,3],"wire_bytes":[1,1,1,1],"memory_bytes":[1,1,1,1]}`:  "belongs to rank",
		`{"ranks":3,"owner":[0,1,2,2],"wire_bytes":[1,1,1,-1],"memory_bytes":[1,1,1,1]}`: "negative load",
	} {
		if _, err := readPlacement([]byte(text), 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzPlacement: an accepted placement gives every shard to a rank, for any number of ranks.
func FuzzPlacement(f *testing.F) {
	f.Add([]byte(`{"ranks":2,"owner":[0,1,1,0],"keys":9000,"wire_bytes":[9,1,1,9],"memory_bytes":[1,1,1,1],"strategies":{"x":"pooled"}}`), uint8(3))
	f.Add([]byte(`{"ranks":1,"owner":[0,0,0,0],"keys":-1,"wire_bytes":[0,0,0,0],"memory_bytes":[0,0,0,0]}`), uint8(1))
	f.Add([]byte(`{"ranks":2,"owner":[0,2,1,0],"wire_bytes":[9223372036854775807,9223372036854775807,1,9],"memory_bytes":[1,1,1,1]}`), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, ranks uint8) {
		p, err := readPlacement(b, 4)
		if err != nil {
			return
		}
		size := 1 + int(ranks)%8
		owner := p.Owners(size, 1)
		if owner != nil && len(owner) != 4 {
			t.Fatalf("owners %v", owner)
		}
		for _, r := range owner {
			if r < 0 || int(r) >= size {
				t.Fatalf("owners %v of %d ranks", owner, size)
			}
		}
	})
}
