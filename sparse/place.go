package sparse

import "github.com/wdlrun/wdlrun/sparse/table"

// Salt returns a number that separates the keys of a table from the keys of other tables.
// Without it the same rank would own key 0, often the most frequent one, of every table.
func Salt(name string) uint64 { return table.Salt(name) }

// ShardOf returns the shard, from 0 to shards−1, of a key of the table with that salt.
// shards is a power of two.
func ShardOf(salt, key uint64, shards int) int { return table.ShardOf(salt, key, shards) }

// OwnerOf returns the rank that owns a shard: shards go to ranks in consecutive
// ranges whose lengths differ by at most one.
func OwnerOf(shard, shards, ranks int) int { return shard * ranks / shards }
