package table

import "math/bits"

// Hashes writes to hashes the hash of each key for a table with that salt. It panics if
// hashes is shorter than keys. The format of exported models depends on these hashes.
func Hashes(hashes, keys []uint64, salt uint64) { hashAll(hashes[:len(keys)], keys, salt) }

// ShardOf returns the shard, from 0 to shards−1, of a key of the table with that salt.
// shards is a power of two.
func ShardOf(salt, key uint64, shards int) int {
	return int(hash(salt, key) >> shardShift(shards))
}

// shardShift returns the shift that leaves the shard number of a hash. For one shard it is
// 64, which Go shifts to 0.
func shardShift(shards int) uint { return uint(64 - bits.TrailingZeros(uint(shards))) }
