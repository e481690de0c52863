package encode

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// fitConstant finds out whether all records have the same value of a column.
type fitConstant struct {
	column int
	field  string
	seen   bool // there was a record
	varies bool // two records differ, or one has no value or several
	hash   uint64
	text   string // the value, cut to maxUnread bytes
}

// comparesAll reports whether a feature is watched by a fitConstant. The statistics of
// standardise, quantile and age show constants already. Weights may vary where keys do not.
func comparesAll(ft *schema.Feature) bool {
	switch e, _ := schema.EncodingOf(ft.Encode); e {
	case schema.Standardise, schema.Quantile, schema.Age, schema.Vector:
		return false
	}
	return ft.Weights == "" && ft.Pairs == ""
}

// add compares the value in the record parsed last.
func (c *fitConstant) add(p *parser) {
	l := &p.lists[c.column]
	if p.absent[c.column] || l.Len() != 1 {
		c.seen, c.varies = true, true
		return
	}
	if p.columns[c.column].Number {
		x := p.numbers[c.column]
		if hash := math.Float64bits(x); !c.seen {
			c.seen, c.hash, c.text = true, hash, strconv.FormatFloat(x, 'g', -1, 64)
		} else {
			c.varies = hash != c.hash
		}
		return
	}
	text := p.textOf(l, 0)
	if hash := xxh3.Hash(text); !c.seen {
		c.seen, c.hash, c.text = true, hash, string(text[:min(len(text), maxUnread)])
	} else {
		c.varies = hash != c.hash
	}
}

// value returns the value that all records have, as a message shows it.
func (c *fitConstant) value() (text string, ok bool) {
	if !c.seen || c.varies {
		return "", false
	}
	if _, err := strconv.ParseFloat(c.text, 64); err == nil {
		return c.text, true
	}
	return strconv.Quote(string(record.CutLong([]byte(c.text)))), true
}

func (c *fitConstant) append(b []byte) []byte {
	if !c.seen || c.varies {
		return append(b, map[bool]byte{false: 0, true: 1}[c.seen])
	}
	b = binary.LittleEndian.AppendUint64(append(b, 2), c.hash)
	return append(binary.AppendUvarint(b, uint64(len(c.text))), c.text...)
}

// merge adds the encoded result of another part.
func (c *fitConstant) merge(r *wire.Reader) {
	switch state := r.Byte(); state {
	case 0:
	case 1:
		c.seen, c.varies = true, true
	case 2:
		hash, text := r.Uint64(), string(r.Bytes(maxUnread))
		if !c.seen {
			c.seen, c.hash, c.text = true, hash, text
		} else if hash != c.hash {
			c.varies = true
		}
	default:
		r.Fail("a column in state %d", state)
	}
}
