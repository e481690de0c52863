package embedding

import (
	"math/rand/v2"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// lines is memory as tables use it of which sets of lines, each known beforehand, are
// read or changed in turns: what no table can be faster than.
type lines struct {
	words []uint64
	sets  [][]uint32 // numbers of lines
	turn  int
	sum   uint64 // keeps what is read from being left out
	free  func() error
}

const lineBytes = 64

// newLines returns that many bytes, all of them touched.
func newLines(bytes int64, sets [][]uint32) *lines {
	words, free := table.Pages(int((bytes + lineBytes - 1) &^ (lineBytes - 1)))
	for i := range words {
		words[i] = uint64(i)
	}
	return &lines{words: words, sets: sets, free: free}
}

// randomLines is that with sets of a batch each.
func randomLines(bytes int64) *lines {
	l, rng := newLines(bytes, make([][]uint32, 16)), rand.New(rand.NewPCG(4, 4))
	for i := range l.sets {
		l.sets[i] = make([]uint32, batch)
		for j := range l.sets[i] {
			l.sets[i][j] = uint32(rng.IntN(len(l.words) / 8))
		}
	}
	return l
}

// recordLines is that with the lines of the records of size bytes with those numbers.
func recordLines(n, size int, numbers [][]uint64) *lines {
	sets := make([][]uint32, len(numbers))
	for i, set := range numbers {
		for _, number := range set {
			first, last := int(number)*size/lineBytes, (int(number+1)*size-1)/lineBytes
			for at := first; at <= last; at++ {
				sets[i] = append(sets[i], uint32(at))
			}
		}
	}
	return newLines(int64(n)*int64(size), sets)
}

func (l *lines) next() []uint32 {
	l.turn++
	return l.sets[l.turn%len(l.sets)]
}

func (l *lines) read() {
	sum := uint64(0)
	for _, at := range l.next() {
		sum += l.words[8*int(at)]
	}
	l.sum += sum
}

func (l *lines) change() {
	for _, at := range l.next() {
		l.words[8*int(at)]++
	}
}
