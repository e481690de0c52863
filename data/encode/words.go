package encode

import (
	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/data/signal"
)

// AppendWords appends the words of package signal for the columns of the record that was
// checked last, without the label's.
func (r *RowCoder) AppendWords(dst []uint64) []uint64 {
	p := r.parser
	for i := 1; i < len(p.columns); i++ {
		switch l := &p.lists[i]; {
		case p.absent[i]:
			dst = append(dst, signal.Missing)
		case p.columns[i].Number:
			dst = append(dst, signal.Word(p.numbers[i]))
		default:
			h := uint64(0)
			for k := range l.Len() {
				h = h*31 + xxh3.Hash(p.textOf(l, k))
			}
			dst = append(dst, h)
		}
	}
	return dst
}
