package dense

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// CIN is the compressed interaction network of xDeepFM (Lian et al. 2018,
// "xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender
// Systems", §3.1). A row begins with m embeddings of E columns, the matrix X⁰
// (m×E). Layer k makes H_k feature maps of E columns,
//
//	X^k_h = Σ_{i<H_{k−1}} Σ_{j<m} W^k_{h,ij} · (X^{k−1}_i ⊙ X⁰_j)
//
// and the output is the sum over columns of every map of every layer (§3.1, Eq. 8).
// Maps have no bias and no activation: the paper finds the identity best (§4.4.3).
// All maps of a layer are both summed and read by the next layer.
//
// Cost: 2·E·m·H_{k−1}·H_k operations a row and layer, twice that backward, and two
// passes over E·m·H_{k−1} products, which Backward computes again.
type CIN struct {
	fields, embed int // m and E
	width, out    int // columns of a row of the input and of the output
	layers        []cinLayer

	x0, dx0 []float32 // lines × m: one line per row and column of its embeddings
	y       []float32 // rows × out
	z, dz   []float32 // products of one block of lines, and their gradients
}

type cinLayer struct {
	mix   *Linear   // W: (H_{k−1}·m) × H_k
	in    int       // H_{k−1}
	x, dx []float32 // lines × H_k: the maps and their gradients
}

// cinBlock is the approximate number of products that CIN computes at once: 128 KiB, which
// stay in the second-level cache until the matrix product has read them.
const cinBlock = 32 << 10

// NewCIN declares layers of maps[k] feature maps, over rows of width columns that begin
// with fields·embed columns of embeddings. The parameters are name/layer0/weight and so on.
// NewCIN panics if the embeddings do not fit or a number is below 1.
func NewCIN(a *Arena, name string, fields, embed, width int, maps []int) *CIN {
	if fields < 1 || embed < 1 || fields*embed > width || len(maps) == 0 {
		panic(fmt.Sprintf("dense: NewCIN: %s: %d layers over %d embeddings of %d columns in rows of %d", name, len(maps), fields, embed, width))
	}
	c := &CIN{fields: fields, embed: embed, width: width}
	in := fields
	for k, h := range maps {
		if h < 1 {
			panic(fmt.Sprintf("dense: NewCIN: %s: layer %d has %d feature maps", name, k, h))
		}
		mix := newUnbiased(a, fmt.Sprintf("%s/layer%d", name, k), in*fields, h)
		mix.W.Uses = embed
		c.layers = append(c.layers, cinLayer{mix: mix, in: in})
		in = h
		c.out += h
	}
	return c
}

// Out returns the width of a row of the output: the number of feature maps of all layers.
func (c *CIN) Out() int { return c.out }

// Forward computes the sums of the maps; x is rows×width, the result rows×Out.
func (c *CIN) Forward(x []float32, rows int) []float32 {
	lines := rows * c.embed
	c.x0, c.y = grow(c.x0, lines*c.fields), grow(c.y, rows*c.out)
	for r := range rows {
		transpose(c.x0[r*c.embed*c.fields:], x[r*c.width:], c.fields, c.embed)
	}
	in, at := c.x0, 0
	for k := range c.layers {
		l := &c.layers[k]
		h := l.mix.out
		l.mix.pack()
		l.x = grow(l.x, lines*h)
		for lo, n := 0, c.block(l); lo < lines; lo += n {
			hi := min(lo+n, lines)
			f32.Forward(l.x[lo*h:hi*h], c.products(in, l.in, lo, hi), &l.mix.packed, nil, hi-lo, false)
		}
		for r := range rows {
			y := c.y[r*c.out+at:][:h]
			clear(y)
			for line := r * c.embed; line < (r+1)*c.embed; line++ {
				f32.AddTo(y, l.x[line*h:(line+1)*h])
			}
		}
		in, at = l.x, at+h
	}
	return c.y
}

// transpose sets t, cols×rows, to the transpose of x, rows×cols.
func transpose(t, x []float32, rows, cols int) {
	for i := range rows {
		for k, v := range x[i*cols : (i+1)*cols] {
			t[k*rows+i] = v
		}
	}
}

// block returns the number of lines of layer l that are computed at once.
func (c *CIN) block(l *cinLayer) int { return max(1, cinBlock/(l.in*c.fields)) }

// products returns, for the lines lo to hi of maps in and of X⁰, the product of each map
// with each embedding.
func (c *CIN) products(in []float32, maps, lo, hi int) []float32 {
	m := c.fields
	c.z = grow(c.z, (hi-lo)*maps*m)
	z := c.z
	for line := lo; line < hi; line++ {
		x0 := c.x0[line*m : (line+1)*m]
		for _, v := range in[line*maps : (line+1)*maps] {
			for j, u := range x0 {
				z[j] = v * u
			}
			z = z[m:]
		}
	}
	return c.z
}

// AddBackward adds the gradients of the parameters, and adds the gradient of the input to
// dx, rows×width. dy is rows×Out.
func (c *CIN) AddBackward(dx, dy []float32, rows int) {
	lines, at := rows*c.embed, c.out
	c.dx0 = grow(c.dx0, lines*c.fields)
	clear(c.dx0)
	for k := len(c.layers) - 1; k >= 0; k-- {
		l := &c.layers[k]
		at -= l.mix.out
		l.dx = grow(l.dx, lines*l.mix.out)
		c.addToColumns(l, dy, at, rows, k == len(c.layers)-1)
		in, din := c.x0, c.dx0
		if k > 0 {
			below := &c.layers[k-1]
			below.dx = grow(below.dx, lines*l.in)
			clear(below.dx)
			in, din = below.x, below.dx
		}
		c.backward(l, in, din, lines)
	}
	m := c.fields
	for r := range rows {
		for k := range c.embed {
			g := c.dx0[(r*c.embed+k)*m:][:m]
			for i, v := range g {
				dx[r*c.width+i*c.embed+k] += v
			}
		}
	}
}

// addToColumns adds the gradient of a map's sum to every column of the map, for every map of l.
// In the last layer it sets the columns, because no later layer has written them.
func (c *CIN) addToColumns(l *cinLayer, dy []float32, at, rows int, last bool) {
	h := l.mix.out
	for r := range rows {
		g := dy[r*c.out+at:][:h]
		for line := r * c.embed; line < (r+1)*c.embed; line++ {
			if d := l.dx[line*h : (line+1)*h]; last {
				copy(d, g)
			} else {
				f32.AddTo(d, g)
			}
		}
	}
}

// backward computes the gradients of the weights of l, of its input maps in (to din), and
// of X⁰, from the gradient of its maps.
func (c *CIN) backward(l *cinLayer, in, din []float32, lines int) {
	m, h := c.fields, l.mix.out
	for lo, n := 0, c.block(l); lo < lines; lo += n {
		hi := min(lo+n, lines)
		z, dy := c.products(in, l.in, lo, hi), l.dx[lo*h:hi*h]
		l.mix.arena.scratch.GradWeight(l.mix.W.Grad, nil, z, dy, hi-lo, l.in*m, h)
		c.dz = grow(c.dz, len(z))
		f32.GradInput(c.dz, dy, &l.mix.packed, hi-lo, nil)
		dz := c.dz
		for line := lo; line < hi; line++ {
			x0, dx0 := c.x0[line*m:(line+1)*m], c.dx0[line*m:(line+1)*m]
			for i, v := range in[line*l.in : (line+1)*l.in] {
				var sum float32
				for j, g := range dz[:m] {
					sum += float32(g * x0[j])
					dx0[j] += float32(g * v)
				}
				din[line*l.in+i] += sum
				dz = dz[m:]
			}
		}
	}
}

// NonFinite is MLP.NonFinite for the layers of the network.
func (c *CIN) NonFinite() (place string, found bool) {
	for k := range c.layers {
		l := &c.layers[k]
		if place, found := nonFinite(params(l.mix)); found {
			return place, true
		}
		if f32.FirstNonFinite(l.x) >= 0 {
			return "output of " + l.mix.Name(), true
		}
	}
	return "", false
}
