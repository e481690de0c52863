package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestPlansAreBalanced: a plan balances the bytes of the ranks and reports its loads and moves.
// A second plan for the same loads moves nothing.
func TestPlansAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 9).Draw(t, "ranks")
		loads := make([]ShardLoad, 1<<rapid.IntRange(0, 8).Draw(t, "log shards"))
		var most, sum int64
		for i := range loads {
			loads[i].WireBytes = int64(rapid.IntRange(0, 1000).Draw(t, "bytes"))
			loads[i].MemoryBytes = int64(rapid.IntRange(0, 1000).Draw(t, "memory"))
			most, sum = max(most, loads[i].WireBytes), sum+loads[i].WireBytes
		}
		var owner []int32
		if rapid.Bool().Draw(t, "placed") {
			owner = make([]int32, len(loads))
			for i := range owner {
				owner[i] = int32(rapid.IntRange(0, 12).Draw(t, "owner")) // possibly a rank of a larger group
			}
		}
		p := Place(loads, owner, ranks)
		carried, moved := make([]int64, ranks), 0
		for shard, r := range p.Owner {
			carried[r] += loads[shard].WireBytes
			if owner != nil && owner[shard] != r {
				moved++
			}
		}
		// A rank takes a shard only if it was the least loaded rank or stays below the limit.
		limit := float64(sum)/float64(ranks)*slack + float64(most) + 1
		for r, bytes := range carried {
			if float64(bytes) > limit {
				t.Fatalf("rank %d exchanges %d of %d bytes, the largest shard has %d", r, bytes, sum, most)
			}
			if want := bytes * int64(ranks-1) / int64(ranks); p.Ranks[r].WireBytes != want {
				t.Fatalf("rank %d is planned to send %d bytes, want %d", r, p.Ranks[r].WireBytes, want)
			}
		}
		if p.Moved != moved {
			t.Fatalf("the plan reports %d moved shards, %d move", p.Moved, moved)
		}
		if again := Place(loads, p.Owner, ranks); again.Moved > p.Moved && owner != nil {
			t.Fatalf("a second plan moves %d shards, want 0", again.Moved)
		}
	})
}

// TestPlaceMovesWhatMustMove compares a plan for four shards on two ranks with the expected one.
func TestPlaceMovesWhatMustMove(t *testing.T) {
	loads := []ShardLoad{{Rows: 10, MemoryBytes: 400, Keys: 30, WireBytes: 3000}, {Rows: 1, MemoryBytes: 40, Keys: 10, WireBytes: 1000}, {Rows: 2, MemoryBytes: 80, Keys: 20, WireBytes: 2000}, {}}
	p := Place(loads, []int32{0, 0, 0, 1}, 2)
	want := Plan{Owner: []int32{0, 1, 1, 1}, Moved: 2, Ranks: []RankLoad{
		{1, ShardLoad{Rows: 10, MemoryBytes: 400, Keys: 30, WireBytes: 1500}}, // half of the traffic is this rank's own
		{3, ShardLoad{Rows: 3, MemoryBytes: 120, Keys: 30, WireBytes: 1500}},
	}}
	if !reflect.DeepEqual(p, want) || p.Imbalance() != 1 {
		t.Fatalf("%+v, imbalance %v, want %+v", p, p.Imbalance(), want)
	}
}

// allLoads returns the loads measured by all ranks. Every rank calls it.
func allLoads(s *Store) ([]ShardLoad, error) {
	const words = 4
	own := s.Shards().Loads(nil)
	n := words * len(own)
	send, recv := make([]int64, n*s.size), make([]int64, n*s.size)
	for i := range send {
		load := own[i%n/words]
		send[i] = []int64{load.Rows, load.MemoryBytes, load.Keys, load.WireBytes}[i%words]
	}
	if err := s.ex.AllToAll(send, recv); err != nil {
		return nil, err
	}
	loads := make([]ShardLoad, len(own))
	for i := 0; i < len(recv); i += words {
		loads[i%n/words].add(ShardLoad{recv[i], recv[i+1], recv[i+2], recv[i+3]})
	}
	return loads, nil
}

// carriedBytes returns the bytes that a rank has exchanged as an owner, counted as in a Plan.
func carriedBytes(s *Store) int64 {
	c := s.Counters()
	return c.KeyBytesReceived + c.RowBytesSent + c.GradBytesReceived
}

// zipfBags draws one rank's batch of n keys.
func zipfBags(zipf *rand.Zipf, n int) []Bags {
	b := Bags{Offsets: make([]int32, 1, n+1)}
	for range n {
		b.Values = append(b.Values, zipf.Uint64())
		b.Offsets = append(b.Offsets, int32(len(b.Values)))
	}
	return []Bags{b}
}

// bytesReceived returns the payload bytes that a rank received. Key counts have the same
// size in both directions.
func bytesReceived(c Counters) int64 {
	return c.CountBytesSent + c.KeyBytesReceived + c.RowBytesReceived + c.GradBytesReceived + c.MarkBytesReceived
}

// trainZipf trains steps with Zipf(1.2) keys and returns the bytes that the rank has sent and
// received in them.
func trainZipf(s *Store, from, steps, batch int) (int64, error) {
	before := s.Counters()
	rng := rand.New(rand.NewPCG(uint64(s.rank), uint64(from)))
	zipf, l := rand.NewZipf(rng, 1.2, 1, 1<<30), s.NewLookup()
	for n := range steps {
		err := errors.Join(s.Pull(l, zipfBags(zipf, batch), true), s.Push(l), s.Apply(Step{N: int64(from + n + 1), Scale: 1, Rate: 1}))
		if err != nil {
			return 0, err
		}
	}
	after := s.Counters()
	return after.BytesSent() + bytesReceived(after) - before.BytesSent() - bytesReceived(before), nil
}

// TestPlacementEvensOutZipf compares the busiest rank's bytes with the mean, for Zipf(1.2) keys
// on 8 ranks, before and after the shards are placed by measured load. The steps after the
// placement have different keys from the measured ones.
func TestPlacementEvensOutZipf(t *testing.T) {
	for _, batch := range []int{16, 64, 256} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) { evenOutZipf(t, batch) })
	}
}

func evenOutZipf(t *testing.T, batch int) {
	const size, steps = 8, 96
	cfg := plainConfig(8)
	cfg.Shards = 256
	before, after := make([]RankLoad, size), make([]RankLoad, size)
	predicted, measured := make([]RankLoad, size), make([]RankLoad, size)
	onRanks(t, size, cfg, func(s *Store) error {
		n, err := trainZipf(s, 0, steps, batch)
		if err != nil {
			return err
		}
		before[s.rank].WireBytes = n
		loads, err := allLoads(s)
		if err != nil {
			return err
		}
		plan := Place(loads, s.Shards().Owner(), size)
		predicted[s.rank] = plan.Ranks[s.rank]
		files := save(s)
		s.Reset()
		if err := errors.Join(s.Shards().Place(plan.Owner), exchangeFiles(s, files)); err != nil {
			return err
		}
		was := carriedBytes(s)
		if after[s.rank].WireBytes, err = trainZipf(s, steps, steps, batch); err != nil {
			return err
		}
		measured[s.rank].WireBytes = carriedBytes(s) - was
		return nil
	})
	bytes := func(r RankLoad) int64 { return r.WireBytes }
	b, a := imbalance(before, bytes), imbalance(after, bytes)
	t.Logf("busiest rank / mean: %.3f before the placement, %.3f after", b, a)
	if a > 1.2 || a > b {
		t.Errorf("the busiest rank exchanges %.3f of the mean after the placement, %.3f before; want at most 1.2", a, b)
	}
	for r := range predicted {
		if p, m := float64(predicted[r].WireBytes), float64(measured[r].WireBytes); m < 0.75*p || m > 1.25*p {
			t.Errorf("rank %d: %v bytes predicted, %v measured", r, p, m)
		}
	}
}

// save returns the shards of a rank by section name.
func save(s *Store) map[string][]byte {
	files := map[string][]byte{}
	for _, x := range s.Files().Sections() {
		var b bytes.Buffer
		if err := s.Files().SaveShard(&b, x.Table, x.Shard); err != nil {
			panic(err)
		}
		files[x.Name] = b.Bytes()
	}
	return files
}

// exchangeFiles loads into each rank its shards from the files of all ranks. A map stands in for
// a shared disk.
func exchangeFiles(s *Store, files map[string][]byte) error {
	disk := s.ex.(member).disk(files)
	if err := collective.Barrier(s.ex.(member).comms[s.rank]); err != nil {
		return err
	}
	for _, shard := range s.Shards().Owned() {
		for t := range s.tables {
			if b, ok := disk(SectionName(s.name(t), shard)); ok {
				if err := s.Files().LoadShard(bytes.NewReader(b), t, shard); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// TestPlacedJobsGiveTheSameBits moves all shards in the middle of a job.
func TestPlacedJobsGiveTheSameBits(t *testing.T) {
	const size = 3
	j := fixedJob(optim.Rule{Kind: "adam"}, true, size, 10)
	want := j.onStores(t, size)
	rows := make([][]map[uint64][]float32, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		l := s.NewLookup()
		for i := range j.steps {
			if i == 5 {
				owner := s.Shards().Owner()
				for shard := range owner {
					owner[shard] = (owner[shard] + 1 + int32(shard%2)) % size
				}
				files, past := save(s), *s.Files().Past()
				s.Reset()
				*s.Files().Past() = past
				if err := errors.Join(s.Shards().Place(owner), exchangeFiles(s, files)); err != nil {
					return err
				}
			}
			if _, _, err := j.steps[i].run(s, l); err != nil {
				return err
			}
		}
		rows[s.rank] = records(s)
		return nil
	})
	got, err := merge(rows)
	fatal.If(t, err)
	fatal.If(t, differ(got, want.rows, 0))
}

// TestBadPlacesAreNamed: an invalid owner, and a placement that differs between ranks or comes
// too late, give an error that names the fault.
func TestBadPlacesAreNamed(t *testing.T) {
	cfg := func(int) Config { return plainConfig(1) }
	for want, call := range map[string]func(s *Store, l *Lookup) error{
		"owners of 1 shards, there are 8": func(s *Store, _ *Lookup) error { return s.Shards().Place([]int32{0}) },
		"shard 3 is given to rank 2":      func(s *Store, _ *Lookup) error { return s.Shards().Place([]int32{0, 1, 0, 2, 0, 0, 0, 0}) },
		"Reset the store and load": func(s *Store, l *Lookup) error {
			err := errors.Join(s.Pull(l, oneBag(1, 2, 3, 4, 5, 6), true), s.Push(l), s.Apply(Step{N: 1, Scale: 1, Rate: 1}))
			return errors.Join(err, s.Shards().Place(make([]int32, 8)))
		},
		"has another configuration": func(s *Store, l *Lookup) error { // shard 7 has another owner
			return errors.Join(s.Shards().Place([]int32{0, 0, 0, 0, 0, 0, 0, int32(s.rank)}), s.Pull(l, nil, true))
		},
		"the store was reset after the pull": func(s *Store, l *Lookup) error {
			return errors.Join(s.Pull(l, nil, true), s.Shards().Place(make([]int32, 8)), s.Push(l))
		},
	} {
		t.Run(want, func(t *testing.T) { wantFault(t, cfg, call, want) })
	}
	defer func() {
		if r := recover(); !strings.HasPrefix(fmt.Sprint(r), "sparse: Place") {
			t.Errorf("recovered %v", r)
		}
	}()
	Place(make([]ShardLoad, 2), nil, 0)
}

// TestMeasuredPullsKeepStepWithNothing: the sampling of pulls is not in phase with the steps. Of
// the pulls at one place in steps of up to 16 pulls, one in eight is measured, as of all pulls.
func TestMeasuredPullsKeepStepWithNothing(t *testing.T) {
	const steps = 800
	for each := range int64(16) {
		for place := range each + 1 {
			n := 0
			for step := range int64(steps) {
				if measured(1 + step*(each+1) + place) {
					n++
				}
			}
			if n < steps/loadEvery*3/4 || n > steps/loadEvery*5/4 {
				t.Errorf("of %d pulls at place %d of %d in a step, %d are measured", steps, place+1, each+1, n)
			}
		}
	}
}
