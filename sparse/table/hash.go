package table

import (
	"hash/fnv"
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Salt returns a number that separates the keys of a table from the keys of other tables.
// Without it the same rank would own key 0, often the most frequent one, of every table.
func Salt(table string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(table))
	return f32.Mix(h.Sum64() + f32.Golden)
}

// hash returns a hash of key. Its high bits select the shard and its low bits the slot
// within it, so the two are independent.
func hash(salt, key uint64) uint64 { return f32.Mix(key ^ salt) }

// Hashes writes to hashes the hash of each key for a table with that salt. It panics if
// hashes is shorter than keys. The format of exported models depends on these hashes.
func Hashes(hashes, keys []uint64, salt uint64) { hashAll(hashes[:len(keys)], keys, salt) }

// hashPlain is the specification of hashAll, which writes the hashes of keys.
func hashPlain(hashes, keys []uint64, salt uint64) {
	hashes = hashes[:len(keys)]
	for i, key := range keys {
		hashes[i] = hash(salt, key)
	}
}

// ShardOf returns the shard, from 0 to shards−1, of a key of the table with that salt.
// shards is a power of two.
func ShardOf(salt, key uint64, shards int) int {
	return int(hash(salt, key) >> shardShift(shards))
}

// shardShift returns the shift that leaves the shard number of a hash. For one shard it is
// 64, which Go shifts to 0.
func shardShift(shards int) uint { return uint(64 - bits.TrailingZeros(uint(shards))) }
