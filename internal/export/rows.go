package export

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse"
)

// Precisions returns the names of the types in which a table can be written.
func Precisions() []string { return []string{"float32", "bfloat16", "int8"} }

// precision is one of Precisions, by its number in files.
type precision uint32

const (
	float32s precision = iota
	bfloat16s
	int8s
)

func precisionOf(name string) (precision, error) {
	if name == "" {
		return float32s, nil
	}
	i := slices.Index(Precisions(), name)
	if i < 0 {
		return 0, fmt.Errorf("rows %q are not one of %v", name, Precisions())
	}
	return precision(i), nil
}

// codec writes and reads the rows of one table.
type codec struct {
	as     precision
	dims   []int // by part
	width  int   // V
	stride int   // bytes of a row
	heads  int   // float32 at the beginning of a row
}

func newCodec(as precision, t sparse.Table) codec {
	c := codec{as: as}
	small := 0
	for _, p := range t.Parts {
		c.dims = append(c.dims, p.Dim)
		c.width += p.Dim
		switch {
		case p.Dim == 1:
			c.heads++
		case as == int8s:
			c.heads++
			small += p.Dim
		default:
			small += 2 * p.Dim
		}
	}
	if as == float32s {
		c.heads, small = c.width, 0
	}
	c.stride = 4*c.heads + (small+3)&^3
	return c
}

// record returns the number of bytes of a key and its row.
func (c *codec) record() int { return keyBytes + c.stride }

const keyBytes = 8

// maxValue returns the largest magnitude that can be written.
func (c *codec) maxValue() float32 {
	if c.as == bfloat16s {
		return maxBF16
	}
	return math.MaxFloat32
}

// maxBF16 is the largest bfloat16. Float32 values beyond it, by less than a rounding,
// would become infinite.
const maxBF16 = 0x1.fep127

// encode writes a row of finite values.
func (c *codec) encode(dst []byte, values []float32) {
	clear(dst)
	heads, small := raw.Of[float32](dst[:4*c.heads]), dst[4*c.heads:]
	if c.as == float32s {
		copy(heads, values)
		return
	}
	for _, dim := range c.dims {
		part := values[:dim]
		values = values[dim:]
		switch {
		case dim == 1:
			heads[0], heads = part[0], heads[1:]
		case c.as == int8s:
			heads[0] = quantise(small[:dim], part)
			heads, small = heads[1:], small[dim:]
		default:
			f32.ToBF16(raw.Of[f32.BF16](small[:2*dim]), part)
			small = small[2*dim:]
		}
	}
}

// quantise writes values as int8 to a zeroed dst, and returns their scale.
func quantise(dst []byte, values []float32) (scale float32) {
	var most float32
	for _, v := range values {
		most = max(most, float32(math.Abs(float64(v))))
	}
	if scale = most / 127; scale == 0 {
		return 0 // all are 0, or too small for a scale
	}
	for i, v := range values {
		q := math.RoundToEven(float64(v) / float64(scale))
		dst[i] = byte(int8(max(-127, min(127, q))))
	}
	return scale
}

// decode reads a row.
func (c *codec) decode(dst []float32, row []byte) {
	heads, small := raw.Of[float32](row[:4*c.heads]), row[4*c.heads:]
	if c.as == float32s {
		copy(dst, heads)
		return
	}
	for _, dim := range c.dims {
		part := dst[:dim]
		dst = dst[dim:]
		switch {
		case dim == 1:
			part[0], heads = heads[0], heads[1:]
		case c.as == int8s:
			scale := heads[0]
			for i, b := range small[:dim] {
				part[i] = float32(scale * float32(int8(b)))
			}
			heads, small = heads[1:], small[dim:]
		default:
			f32.FromBF16(part, raw.Of[f32.BF16](small[:2*dim]))
			small = small[2*dim:]
		}
	}
}
