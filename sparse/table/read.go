package table

import (
	"math"
	"unsafe"
)

// Get copies the record of a key, V values and S floats of state, to record. It reports
// whether the key has a row.
func (t *steps) Get(key uint64, record []float32) (bool, error) {
	r, err := t.find(key)
	if err != nil || r == 0 {
		return false, err
	}
	t.catchUp([]Row{r})
	copy(record, t.full(r))
	return true, nil
}

// Read writes the values of rows to dst: the values of row i to dst[i·stride : i·stride+V]. For
// a row of 0 it writes the initial values of the key or, if keys is nil, negative zeros.
// They add nothing to a sum, and no trained row consists of them (see [IsUnknown]).
func (t *steps) Read(keys []uint64, rows []Row, dst []float32, stride int) {
	var pointers [chunk + ahead]*byte
	t.catchUp(rows)
	for at := 0; at < len(rows); at += chunk {
		end := min(at+chunk, len(rows))
		if t.used > 0 { // otherwise no memory is allocated, not even for row 0
			coming := rows[at:min(end+ahead, len(rows))]
			t.records.locate(coming, pointers[:])
			t.copyValues(dst[at*stride:], stride, pointers[:len(coming)], end-at)
		}
		if keys != nil {
			t.begin(keys[at:end], rows[at:end], dst[at*stride:], stride)
			continue
		}
		for i := at; i < end; i++ {
			if rows[i] == 0 {
				FillUnknown(dst[i*stride : i*stride+t.width])
			}
		}
	}
}

// minusZero is the bits of -0. Optimizer steps add and subtract, which never turns values
// of which one is not -0 into all -0.
const minusZero = 1 << 31

// FillUnknown writes the values of a key without a row: zeros that [IsUnknown] recognises.
func FillUnknown(values []float32) {
	for i := range values {
		values[i] = math.Float32frombits(minusZero)
	}
}

// IsUnknown reports whether values, written by Read, belong to a key without a row.
func IsUnknown(values []float32) bool {
	for _, v := range values {
		if math.Float32bits(v) != minusZero {
			return false
		}
	}
	return true
}

// copyValues writes the values of the first n records to dst. The other records belong to
// the next call.
func (t *shape) copyValues(dst []float32, stride int, records []*byte, n int) {
	if t.cfg.Values == Float32 {
		gather(dst, stride, records, n, t.width)
		return
	}
	prefetch(records, 0)
	for i, p := range records[:n] {
		expand(dst[i*stride:i*stride+t.width], unsafe.Slice((*float32)(unsafe.Pointer(p)), t.packed))
	}
}
