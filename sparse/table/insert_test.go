package table

// insertAll writes the row of each key to rows. Keys without a row are inserted with their
// initial values, regardless of admission.
func (t *tiered) insertAll(keys []uint64, rows []Row) error {
	if err := t.enforceLimit(); err != nil {
		return err
	}
	if err := t.checkCapacity(len(keys)); err != nil {
		return err
	}
	for at := 0; at < len(keys); at += chunk {
		end := min(at+chunk, len(keys))
		if err := t.lookup(keys[at:end], rows[at:end]); err != nil {
			return err
		}
		for i := at; i < end; i++ {
			if rows[i] == 0 {
				rows[i] = t.insertOnce(keys[i])
			}
		}
	}
	return nil
}

// insertOnce inserts a key with its initial record unless it has a row.
func (t *tiered) insertOnce(key uint64) Row {
	h := hash(t.salt, key)
	if r := t.index.find(key, h); r != 0 {
		return r
	}
	r := t.newRow()
	t.index.insert(key, h, r)
	t.fill(r, key)
	t.stamp(r, uint32(t.now+1), 1)
	return r
}
