package sparse

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// ShardLoad is what one shard of all tables costs, measured by its owner.
type ShardLoad struct {
	Rows        int64 `json:"rows"`         // held
	MemoryBytes int64 `json:"memory_bytes"` // of these rows and their index
	Keys        int64 `json:"keys"`         // unique keys that ranks asked for, the owner included
	WireBytes   int64 `json:"wire_bytes"`   // of these keys, their rows and gradients, if all travelled
}

func (a *ShardLoad) add(b ShardLoad) {
	a.Rows += b.Rows
	a.MemoryBytes += b.MemoryBytes
	a.Keys += b.Keys
	a.WireBytes += b.WireBytes
}

// RankLoad is the share of one rank.
type RankLoad struct {
	Shards int `json:"shards"`
	ShardLoad
}

// Plan says which rank owns which shard and what each rank is expected to carry.
// WireBytes of a rank are those of its shards times the share (P−1)/P of ranks
// that are others, as all ranks ask for about the same.
type Plan struct {
	Ranks []RankLoad
	Owner []int32 // by shard
	Moved int     // shards whose owner was another
}

// slack is how far above the mean a rank may be loaded before a shard leaves it:
// a plan moves no more than balance asks for.
const slack = 1.02

// Place spreads shards over ranks: greedily, the most loaded shard first (longest
// processing time first, Graham 1969). A shard stays where it is unless its owner,
// or rank owner[shard] if that is one of ranks, would exceed the mean by more
// than 2 %; then it goes to the least loaded rank. The load is that in bytes on
// the wire, and, where nothing was asked for, that in memory. Equal inputs give
// the same Plan on every rank. owner may be nil.
func Place(loads []ShardLoad, owner []int32, ranks int) Plan {
	if ranks < 1 || owner != nil && len(owner) != len(loads) {
		panic(fmt.Sprintf("sparse: Place: %d loads and %d owners for %d ranks", len(loads), len(owner), ranks))
	}
	var total ShardLoad
	order := make([]int, len(loads))
	for i, l := range loads {
		order[i] = i
		total.add(l)
	}
	weight := func(l ShardLoad) float64 { return share(l.WireBytes, total.WireBytes) }
	if total.WireBytes == 0 {
		weight = func(l ShardLoad) float64 { return share(l.MemoryBytes, total.MemoryBytes) }
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(weight(loads[b]), weight(loads[a])), cmp.Compare(loads[b].MemoryBytes, loads[a].MemoryBytes))
	})
	p := Plan{Ranks: make([]RankLoad, ranks), Owner: make([]int32, len(loads))}
	for _, shard := range order {
		l := loads[shard]
		to := p.least(weight)
		if owner != nil {
			if was := int(owner[shard]); was >= 0 && was < ranks && p.fits(was, l, weight, len(loads)) {
				to = was
			}
			if int(owner[shard]) != to {
				p.Moved++
			}
		}
		p.Owner[shard] = int32(to)
		p.Ranks[to].Shards++
		p.Ranks[to].add(l)
	}
	for i := range p.Ranks {
		r := &p.Ranks[i]
		r.WireBytes = r.WireBytes * int64(ranks-1) / int64(ranks)
	}
	return p
}

// share is x of a total, which is at least x.
func share(x, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(x) / float64(total)
}

// fits reports whether a shard may stay with its rank. Shards without load count
// by number.
func (p *Plan) fits(rank int, l ShardLoad, weight func(ShardLoad) float64, shards int) bool {
	limit := slack / float64(len(p.Ranks))
	if weight(l) == 0 {
		return float64(p.Ranks[rank].Shards+1) <= float64(float64(shards)*limit)+1
	}
	return weight(p.Ranks[rank].ShardLoad)+weight(l) <= limit
}

// least is the rank with the least load, then the least memory, then the fewest
// shards, then the lowest number.
func (p *Plan) least(weight func(ShardLoad) float64) (rank int) {
	for r := range p.Ranks {
		a, b := &p.Ranks[r], &p.Ranks[rank]
		if cmp.Or(cmp.Compare(weight(a.ShardLoad), weight(b.ShardLoad)), cmp.Compare(a.MemoryBytes, b.MemoryBytes), cmp.Compare(a.Shards, b.Shards)) < 0 {
			rank = r
		}
	}
	return rank
}

// Imbalance is the largest share of bytes on the wire over the mean; 1 is even.
func (p Plan) Imbalance() float64 {
	return imbalance(p.Ranks, func(r RankLoad) int64 { return r.WireBytes })
}

func imbalance(ranks []RankLoad, of func(RankLoad) int64) float64 {
	var most, sum int64
	for _, r := range ranks {
		most, sum = max(most, of(r)), sum+of(r)
	}
	if sum == 0 {
		return 1
	}
	return float64(most) * float64(len(ranks)) / float64(sum)
}

// MemoryBytes is what a rank with so many of the shards needs for rows of a table,
// by what package table says of its memory: for each row its record and IndexBytes.
func MemoryBytes(t Table, rows int64, shards int) int64 {
	t = t.Default()
	values, state := 0, 0
	for _, p := range t.Parts {
		values, state = values+p.Dim, state+p.Rule.StateLen(p.Dim)
	}
	words := values + state
	if t.Values == table.BFloat16 {
		words = (values+1)/2 + state
	}
	return rows*int64(4*words) + IndexBytes(t, rows, shards)
}

// IndexBytes is what of MemoryBytes a tier never has on disk: for each row its stamp and
// 24 bytes of index, and for each shard that has rows 92 bytes, or 188 with few rows.
func IndexBytes(t Table, rows int64, shards int) int64 {
	notes := int64(4)
	if t.Evict.HalfLife > 0 {
		notes = 8
	}
	used := usedShards(rows, shards)
	return rows*notes + max(int64(188*used), 24*rows+int64(92*used))
}

// SightingBytes is what a rank with so many of all shards needs, in addition to MemoryBytes and
// never on disk, to count how often so many keys were seen that must be admitted.
func SightingBytes(t Table, keys int64, shards, all int) int64 {
	return int64(usedShards(keys, shards) * float64(t.Default().Admit.ShardBytes(all)))
}

// usedShards is in how many of the shards so many keys are on average.
func usedShards(keys int64, shards int) float64 {
	return float64(shards) * (1 - math.Pow(1-1/float64(max(shards, 1)), float64(keys)))
}
