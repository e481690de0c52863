package sparse

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
)

// TestPlacementCoversEveryShardOnce: every shard has an owner, and the numbers of shards per
// rank differ by at most one.
func TestPlacementCoversEveryShardOnce(t *testing.T) {
	for _, shards := range []int{1, 2, 64, 1024} {
		for ranks := 1; ranks <= 33; ranks++ {
			counts, last := make([]int, ranks), 0
			for shard := range shards {
				r := OwnerOf(shard, shards, ranks)
				if r < last || r >= ranks {
					t.Fatalf("shard %d of %d goes to rank %d of %d after rank %d", shard, shards, r, ranks, last)
				}
				counts[r]++
				last = r
			}
			if d := slices.Max(counts) - slices.Min(counts); d > 1 {
				t.Fatalf("%d shards on %d ranks: %v", shards, ranks, counts)
			}
		}
	}
}

// TestShardsAreEven: the keys of a table are distributed evenly over the shards, and the same
// key of several tables is in different shards.
func TestShardsAreEven(t *testing.T) {
	const shards, keys = 64, 64 * 1000
	counts := make([]int, shards)
	for key := range uint64(keys) { // small consecutive ids, which are the usual input
		counts[ShardOf(Salt("user"), key, shards)]++
	}
	for shard, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d has %d of %d keys", shard, n, keys)
		}
	}
	if got := ShardOf(Salt("user"), 12345, 1); got != 0 {
		t.Errorf("with one shard, shard %d was chosen", got)
	}
	homes := map[int]bool{}
	for _, table := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		homes[ShardOf(Salt(table), 0, 1024)] = true
	}
	if len(homes) < 7 {
		t.Errorf("key 0 of 8 tables is in only %d different shards", len(homes))
	}
}

// TestPlacementIsForever compares the placement with stored values, because saved models depend
// on it.
func TestPlacementIsForever(t *testing.T) {
	if got := []int{ShardOf(Salt("user"), 0, 1024), ShardOf(Salt("user"), 1, 1024), ShardOf(Salt("item"), math.MaxUint64, 65536)}; !slices.Equal(got, []int{608, 113, 38092}) {
		t.Errorf("shards %v", got)
	}
}

// TestValidateReportsEveryFault: Validate reports all faults of a configuration at once, and
// Open rejects it.
func TestValidateReportsEveryFault(t *testing.T) {
	bad := Config{Shards: 3, MaxKeysPerExchange: -1, Tables: []Table{
		{Name: "x", Parts: []Part{
			{Name: "p", Dim: 0, L2: -1, Init: Init{Kind: "ones", Scale: math.NaN()}, Rule: optim.Rule{Kind: "lion"}},
			{Name: "p", Dim: maxDim + 1, L2: math.Inf(1)},
		}},
		{Name: "x"},
		{Name: strings.Repeat("n", 256), Parts: make([]Part, maxParts+1)},
	}}
	err := bad.validate()
	if err == nil {
		t.Fatal("the configuration was accepted")
	}
	for _, want := range []string{
		"3 shards", "-1 keys", `table 0 ("x"): part 0 ("p"): dim 0`, "L2 -1", `kind "ones"`, "scale NaN", `"lion"`,
		`part 1: the name "p" is taken`, "dim 4097", "L2 +Inf", `the name "x" is taken`, "0 parts", "1 to 255 bytes", "17 parts",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if err := (Config{}).validate(); err == nil || !strings.Contains(err.Error(), "0 tables") {
		t.Errorf("an empty configuration: %v", err)
	}
	if _, err := Open(Local{}, bad); err == nil {
		t.Error("an invalid configuration was opened")
	}
	if _, err := Open(nil, plainConfig(1)); err == nil {
		t.Error("a store was opened without an Exchanger")
	}
	if _, err := Open(member{newGroup(2), 2}, plainConfig(1)); err == nil {
		t.Error("a store was opened as rank 2 of 2")
	}
}

// TestDefaults compares the defaults with the documented ones.
func TestDefaults(t *testing.T) {
	cfg := Config{Tables: []Table{{Name: "x", Parts: []Part{{Name: "deep", Dim: 8}, {Name: "wide", Dim: 1}}}}}
	got := open(t, cfg).Config()
	deep, wide := got.Tables[0].Parts[0], got.Tables[0].Parts[1]
	if got.Shards != 1024 || deep.Init != (Init{Kind: "normal", Scale: 0.01}) || wide.Init.Kind != "zero" || deep.Rule.Kind != "sgd" {
		t.Fatalf("defaults %+v", got)
	}
	if cfg.Tables[0].Parts[0].Rule.Kind != "" {
		t.Fatal("Default changed the caller's configuration")
	}
}
