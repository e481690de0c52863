package table

import (
	"hash/fnv"

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

// hashPlain is the specification of hashAll, which writes the hashes of keys.
func hashPlain(hashes, keys []uint64, salt uint64) {
	hashes = hashes[:len(keys)]
	for i, key := range keys {
		hashes[i] = hash(salt, key)
	}
}
