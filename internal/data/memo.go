package data

import (
	"sync"
	"sync/atomic"
)

const (
	maxMemo   = 64 << 20 // bytes of rows
	memoChunk = 1 << 16  // words
)

// memo keeps the encoded rows of a small dataset for later epochs. Several batchers may
// share it.
type memo struct {
	at     []atomic.Uint64 // by record: chunk, first word and length of its row, 16 bits each; 0: not kept
	chunks [maxMemo / 8 / memoChunk][]uint64

	full atomic.Bool // no more rows are kept
	mu   sync.Mutex
	last int // chunk to add to
	used int // words of it
}

// newMemo returns nil if the rows of the dataset, of words each if they have no lists, exceed maxMemo.
func newMemo(rows int64, words int) *memo {
	if rows > maxMemo/8/int64(words+1) {
		return nil
	}
	return &memo{at: make([]atomic.Uint64, rows)}
}

// get returns row id, or nil if it is not kept.
func (m *memo) get(id uint64) []uint64 {
	if m == nil {
		return nil
	}
	at := m.at[id].Load()
	if at == 0 {
		return nil
	}
	first := at >> 16 & (memoChunk - 1)
	end := first + at&(memoChunk-1)
	return m.chunks[at>>32][first:end:end]
}

// put keeps a row while there is room for it.
func (m *memo) put(id uint64, row []uint64) {
	if m == nil || len(row) >= memoChunk || m.full.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+len(row) > memoChunk {
		m.last, m.used = m.last+1, 0
	}
	if m.last == len(m.chunks) {
		m.full.Store(true)
		return
	}
	if m.at[id].Load() != 0 {
		return
	}
	if m.used == 0 {
		m.chunks[m.last] = make([]uint64, memoChunk)
	}
	copy(m.chunks[m.last][m.used:], row)
	m.at[id].Store(uint64(m.last)<<32 | uint64(m.used)<<16 | uint64(len(row)))
	m.used += len(row)
}
