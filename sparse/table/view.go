package table

import (
	"math"
	"slices"
)

// Everything is the first step of a snapshot of all rows.
const Everything int64 = -1

// view is a table to be saved: as it is now, or as it was at the start of a snapshot.
type view struct {
	t    *Table
	now  int64 // step of the view
	kept *kept // nil: the current state
}

// asItIs returns the view of the current state.
func (t *Table) asItIs() view {
	t.catchUpAll()
	return view{t: t, now: t.now}
}

// entries returns, by ascending key, the changes of a shard after a step, or all its rows,
// and the keys of gone that have no row. It also returns the number of rows in the shard.
func (v view) entries(shard int, since int64, gone []uint64) (all []entry, rows int) {
	t := v.t
	all = t.list[:0]
	for _, key := range gone {
		if t.ShardOf(key) == shard && !v.holds(key) {
			all = append(all, entry{key: key})
		}
	}
	changing := v.kept != nil && v.kept.last[shard] != 0
	t.index.each(shard, func(key uint64, row Row) {
		if changing && v.kept.set.Has(key) {
			return
		}
		rows++
		if stamp, _ := t.meta(row); v.changed(*stamp, since) {
			all = append(all, entry{key: key, row: row})
		}
	})
	if changing {
		for i := v.kept.last[shard]; i != 0; i = v.kept.before[i-1] {
			item := v.kept.item[i-1]
			if item == 0 {
				continue
			}
			rows++
			if v.changed(v.kept.stamp(item), since) {
				all = append(all, entry{key: v.kept.set.Keys()[i-1], item: item})
			}
		}
	}
	all, t.other = sortByKey(all, t.other)
	all = slices.CompactFunc(all, func(a, b entry) bool { return a.key == b.key }) // removed twice
	t.list = all
	return all, rows
}

// holds reports whether a key has a row.
func (v view) holds(key uint64) bool {
	if v.kept != nil {
		if i, kept := v.kept.set.Number(key); kept {
			return v.kept.item[i] != 0
		}
	}
	return v.t.index.find(key, hash(v.t.salt, key)) != 0
}

// changed reports whether a row with that stamp has changed after a step.
func (v view) changed(stamp uint32, since int64) bool {
	switch {
	case since == Everything:
		return true
	case v.t.dense:
		return v.now > since
	}
	return stamp != 0 && int32(stamp-uint32(since)) > 0
}

// read returns the row to save for an entry. The record is valid until the next call.
func (v view) read(e entry) (rec []float32, stamp uint32, score float32, err error) {
	t := v.t
	if e.item != 0 {
		words := v.kept.words(e.item)
		n := t.words()
		return t.widen(words[:n]), math.Float32bits(words[n]), words[n+1], nil
	}
	rec, err = t.recordOf(e.key, e.row)
	at, has := t.meta(e.row)
	return t.widen(rec), *at, value(has), err
}

// Each calls f with each row of a shard, by ascending key, until f returns an error.
// The record is valid only during the call.
func (t *Table) Each(shard int, f func(key uint64, record []float32) error) error {
	v := t.asItIs()
	all, _ := v.entries(shard, Everything, nil)
	for _, e := range all {
		rec, _, _, err := v.read(e)
		if err == nil {
			err = f(e.key, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
