package dense

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Columns are the columns of an input that hold one embedding. If keys repeat within the
// batch, they hold few distinct rows.
type Columns struct {
	Col, Dim int       // the first column, and how many there are
	Rows     []float32 // n×Dim: the distinct rows
	Of       []uint32  // by row of the batch: the index of its distinct row
	Grad     []float32 // n×Dim: the gradients of the distinct rows; End sets them
}

// Distinct computes the first layer of an MLP for a whole batch by the distinct rows of the
// embeddings in its input, and the other layers for one chunk of the batch at a time. Each
// of its Workers runs on a goroutine of its own and has an MLP of its own; all but the
// first are images of the first. The calls of a step:
//
//	Begin │ Start │ Sum │ (Forward ─ Backward) of each chunk │ End
//
// One goroutine calls Begin. All workers must have finished the calls left of a line before
// any of them makes a call right of it.
//
// An embedding costs n·Dim·H multiply-adds per product instead of B·Dim·H, and two passes
// that add B rows of H values. The other columns of the input are computed as in Linear.
// The order of the sums differs from Linear's and depends on the embeddings alone.
// Exceptions are the gradients of biases and of the weights of the other columns: each
// worker sums its own rows, then the sums of the workers are added.
//
// Forward, the workers share the columns of the layer's output, and its rows if there are
// more workers than tiles. Backward, they share the embeddings. No worker adds to what
// another has computed.
type Distinct struct {
	// Stops are columns, ascending. The End of a single worker reports the weights from each
	// of them on as final (Arena.Final) when their gradients are complete. No embedding may
	// cross one.
	Stops   []int
	Workers []*DistinctWorker

	first   *Linear // of the first MLP; End adds to its gradients
	rows    int     // B
	columns []embedding

	rest  []int     // the other columns, ascending
	x, dx []float32 // B×R: their values, and the gradients of those

	y  []float32 // B×H: the first layer's output
	dy []float32 // tile by tile, B×TileColumns: the gradient of the first layer's sums
	at []uint32  // by embedding and row: where the row of a tile begins

	half *distinctBF16 // nil: float32
}

// DistinctWorker is the part of one goroutine in Distinct.
type DistinctWorker struct {
	*Distinct
	i   int // its index in Workers
	mlp *MLP

	packed  f32.Packed // the columns of the weights that its Sum needs
	version uint64

	restWeight []float32 // R×H: the weights of the other columns
	restGrad   []float32 // R×H
	restPacked f32.Packed

	tile    []float32 // of the embeddings of one group
	set     []int     // by embedding of the group: where its rows without a sum begin in the tile
	scratch f32.TileScratch

	bf16 *workerBF16 // nil: float32
}

// embedding is a Columns and its place in the tile of its group.
type embedding struct {
	Columns
	n       int  // distinct rows
	first   int  // its first row of the group's tile
	inOrder bool // rows are numbered in the order of the batch, and each occurs
}

const (
	// tileRows is the largest number of rows in the tile of a group, unless one embedding or
	// the batch has more: enough to share a pass over the sums, few enough for the cache.
	tileRows = 1536
	// blockRows of a batch are added to all tiles of a group before the next.
	blockRows = 1024
	// together is the number of embeddings to which a row of the batch is added in one pass.
	together = 4
)

// NewDistinct returns the Distinct of MLPs of one kind, with a worker for each. It returns
// nil if their first layer is not Linear or is the only one, or if they compute in bfloat16
// and this machine has no fast kernels for that.
func NewDistinct(mlps ...*MLP) *Distinct {
	p := new(Distinct)
	for i, m := range mlps {
		first, ok := m.layers[0].(*Linear)
		if !ok || len(m.layers) < 2 || m.halved != nil && !f32.TilesBF16() {
			return nil
		}
		if i == 0 {
			p.first = first
		}
		h := &DistinctWorker{Distinct: p, i: i, mlp: m}
		if m.halved != nil {
			p.half, h.bf16 = new(distinctBF16), &workerBF16{halved: m.halved}
		}
		p.Workers = append(p.Workers, h)
	}
	return p
}

// passes is the cost of the two passes over the sums, in multiply-adds per value of a row.
// Distinct rows save three products and cost two passes.
const passes = 10

// Pays reports whether an embedding of dim values with n distinct rows in a batch of rows
// is computed faster here than by Linear.
func (p *Distinct) Pays(n, rows, dim int) bool { return 3*dim*(rows-n) > passes*rows }

// Out is H, the width of the first layer's output.
func (p *Distinct) Out() int { return p.first.out }

// Own returns the range of gradients in the first worker's arena that End sets for all
// workers: the gradients of the first layer's weights. The other workers' arenas do not change there.
func (p *Distinct) Own() (from, to int) { return p.first.W.at, p.first.W.at + len(p.first.W.Grad) }

// Begin takes the embeddings of a batch of rows rows, by ascending column. It returns a
// buffer for the other columns, rows×R, which the caller fills before Start.
func (p *Distinct) Begin(rows int, columns []Columns) (rest []float32) {
	p.rows, p.columns, p.rest = rows, p.columns[:0], p.rest[:0]
	if n := len(columns) * f32.TileStride(rows); cap(p.at) < n {
		p.at = make([]uint32, n)
	} else {
		p.at = p.at[:n]
	}
	col, group := 0, 0
	for _, q := range columns {
		for ; col < q.Col; col++ {
			p.rest = append(p.rest, col)
		}
		col = q.Col + q.Dim
		n := len(q.Rows) / q.Dim
		if group+n > max(tileRows, rows) {
			group = 0
		}
		p.columns = append(p.columns, embedding{Columns: q, n: n, first: group})
		group += n
	}
	for ; col < p.first.in; col++ {
		p.rest = append(p.rest, col)
	}
	r, h := len(p.rest), p.first.out
	p.x, p.dx, p.y = grow(p.x, rows*r), grow(p.dx, rows*r), grow(p.y, rows*h)
	if n := tiles(h) * f32.TileColumns * rows; p.half != nil {
		p.half.begin(len(columns), n)
	} else {
		p.dy = grow(p.dy, n)
	}
	return p.x
}

// tiles returns the number of tiles that hold h columns.
func tiles(h int) int { return (h + f32.TileColumns - 1) / f32.TileColumns }

// share returns part i of n of x elements, [lo, hi).
func share(x, n, i int) (lo, hi int) { return x * i / n, x * (i + 1) / n }

// Start locates the rows of the worker's share of the embeddings in the tiles, and computes
// what the other columns add to rows lo to hi of the batch. It panics if Of has an index
// outside Rows.
func (h *DistinctWorker) Start(lo, hi int) {
	stride := f32.TileStride(h.rows)
	first, end := h.Share(h.i)
	for i := first; i < end; i++ {
		q := &h.columns[i]
		q.place(h.at[i*stride : i*stride+h.rows])
		if h.half != nil {
			h.half.columns[i].load(q, h.rows)
		}
	}
	r, out := len(h.rest), h.first.out
	h.restWeight, h.restGrad = grow(h.restWeight, r*out), grow(h.restGrad, r*out)
	clear(h.restGrad)
	if !h.begun() {
		return
	}
	for i, c := range h.rest {
		copy(h.restWeight[i*out:(i+1)*out], h.first.W.Value[c*out:])
	}
	if h.half != nil {
		h.bf16.start(h.y[lo*out:hi*out], h.x[lo*r:hi*r], h.restWeight, h.first.bias(), hi-lo, r, out)
		return
	}
	h.restPacked.Pack(h.restWeight, r, out)
	f32.Forward(h.y[lo*out:hi*out], h.x[lo*r:hi*r], &h.restPacked, h.first.bias(), hi-lo, false)
}

// begun reports whether Start sets the layer's sums; otherwise the first group of
// embeddings does.
func (p *Distinct) begun() bool { return len(p.rest) > 0 || p.first.B == nil }

// place computes, by row of the batch, where its distinct row begins in the tile.
func (q *embedding) place(at []uint32) {
	seen, skipped := uint64(0), uint64(0)
	for r, number := range q.Of[:len(at)] {
		skipped = max(skipped, max(uint64(number), seen)-seen)
		seen = max(seen, uint64(number)+1)
		at[r] = (uint32(q.first) + number) * f32.TileColumns
	}
	if seen > uint64(q.n) {
		panic(fmt.Sprintf("dense: Distinct: row %d of the %d of columns %d to %d", seen-1, q.n, q.Col, q.Col+q.Dim))
	}
	q.inOrder = skipped == 0 && seen == uint64(q.n)
}

// group returns the end of the group of embeddings that begins with lo, and allocates its
// tile.
func (h *DistinctWorker) group(lo int) (hi int) {
	for hi = lo + 1; hi < len(h.columns) && h.columns[hi].first > 0; hi++ {
	}
	last := &h.columns[hi-1]
	h.tile = grow(h.tile, (last.first+last.n)*f32.TileColumns)
	return hi
}

// of returns the rows of an embedding in the tile of its group.
func (h *DistinctWorker) of(q *embedding) []float32 {
	return h.tile[q.first*f32.TileColumns:][:q.n*f32.TileColumns]
}

// Sum computes the worker's share of the first layer's output.
func (h *DistinctWorker) Sum() {
	rows, n := h.rows, tiles(h.first.out)
	if v := h.first.arena.Version(); h.version != v && h.half == nil {
		from, to := n*h.i/len(h.Workers), (n*(h.i+1)+len(h.Workers)-1)/len(h.Workers)
		h.packed.PackColumns(h.first.W.Value, h.first.in, h.first.out, from*f32.TileColumns, to*f32.TileColumns)
		h.version = v
	}
	for at, end := share(n*rows, len(h.Workers), h.i); at < end; {
		t := at / rows
		next := min((t+1)*rows, end)
		h.sum(t*f32.TileColumns, at-t*rows, next-t*rows)
		at = next
	}
}

// sum computes rows from to to of the tile of columns j and following.
func (h *DistinctWorker) sum(j, from, to int) {
	l, stride, init := h.first, f32.TileStride(h.rows), h.first.bias()
	if h.begun() {
		init = nil
	}
	for lo, hi := 0, 0; lo < len(h.columns); lo = hi {
		hi = h.group(lo)
		for i := lo; i < hi; i++ {
			h.forward(i, j)
		}
		floor := float32(math.Inf(-1))
		if l.relu && hi == len(h.columns) {
			floor = 0
		}
		f32.TileSum(h.y[from*l.out:to*l.out], init, h.tile, h.at[lo*stride+from:hi*stride], stride, to-from, l.out, j, floor)
		init = nil
	}
}

// forward computes the rows of embedding i in the tile of columns j and following.
func (h *DistinctWorker) forward(i, j int) {
	l, q := h.first, &h.columns[i]
	if h.half != nil {
		f32.TileForwardBF16(h.of(q), &h.half.columns[i].rows, l.W.Value, &h.bf16.scratch, l.out, q.Col, j)
		return
	}
	f32.TileForward(h.of(q), q.Rows, &h.packed, q.n, q.Col, q.Dim, j)
}

// Forward computes the MLP's output of rows lo to hi of the batch.
func (h *DistinctWorker) Forward(lo, hi int, train bool) (y []float32, err error) {
	m, out := h.mlp, h.first.out
	clear(m.outs)
	y = h.y[lo*out : hi*out]
	m.x, m.outs[0] = nil, y
	if h.half != nil {
		y = h.bf16.forward(y, hi-lo)
		m.outs[len(m.outs)-1] = y
		return y, nil
	}
	for i, l := range m.layers[1:] {
		if y, err = l.Forward(y, hi-lo, train); err != nil {
			return nil, err
		}
		m.outs[i+1] = y
	}
	return y, nil
}

// Backward adds the gradients of the other layers for rows lo to hi, the last
// Forward, and keeps the gradient of the first layer's sums.
func (h *DistinctWorker) Backward(dy []float32, lo, hi int) (err error) {
	m, out, rows := h.mlp, h.first.out, hi-lo
	if h.half != nil {
		h.bf16.backward(h, dy, lo, hi)
		return nil
	}
	for i := len(m.layers) - 1; i > 0; i-- {
		if dy, err = m.layers[i].Backward(dy, rows); err != nil {
			return err
		}
	}
	l := m.layers[0].(*Linear)
	if l.relu && !l.before {
		f32.ReLUGrad(dy, m.outs[0])
	}
	if l.B != nil {
		l.arena.scratch.GradWeight(nil, l.B.Grad, nil, dy, rows, 0, out)
	}
	if r := len(h.rest); r > 0 {
		l.arena.scratch.GradWeight(h.restGrad, nil, h.x[lo*r:hi*r], dy, rows, r, out)
		l.zeros.gradient(l.arena.scratch.GradInput(h.dx[lo*r:hi*r], dy, &h.restPacked, rows, nil))
	}
	for j := 0; j < out; j += f32.TileColumns {
		f32.TileCut(h.dy[j*h.rows+lo*f32.TileColumns:][:rows*f32.TileColumns], dy, rows, out, j)
	}
	return nil
}

// End adds the worker's share of the gradients of the first layer's weights and sets the
// gradients of its embeddings' rows. Stops do not change the bits.
func (h *DistinctWorker) End() {
	first, columns := h.Share(h.i)
	least, rest := share(len(h.rest), len(h.Workers), h.i)
	for k := len(h.Stops); k >= 0; k-- {
		from := 0
		if k > 0 {
			from = h.Stops[k-1]
		}
		end := columns
		for columns > first && h.columns[columns-1].Col >= from {
			columns--
		}
		h.endOf(columns, end)
		for ; rest > least && h.rest[rest-1] >= from; rest-- {
			h.endRest(rest - 1)
		}
		if len(h.Workers) == 1 {
			h.first.arena.finish(h.first.W, from)
		}
	}
}

// Share returns the range of embeddings that worker i reads and whose gradients it computes.
// All shares cost about the same.
func (p *Distinct) Share(i int) (first, end int) { return p.ends(i), p.ends(i + 1) }

// ends returns the embedding with which the share of worker i begins.
func (p *Distinct) ends(i int) (first int) {
	if i == len(p.Workers) {
		return len(p.columns)
	}
	all, n := 0, 0
	for j := range p.columns {
		all += p.cost(j)
	}
	for ; n*len(p.Workers) < all*i; first++ {
		n += p.cost(first)
	}
	return first
}

// cost returns the cost of End for embedding j, in multiply-adds.
func (p *Distinct) cost(j int) int {
	q := &p.columns[j]
	return passes/2*p.rows + 2*q.Dim*q.n
}

// endRest adds the gradients of the weights of other column i.
func (h *DistinctWorker) endRest(i int) {
	n, c := h.first.out, h.rest[i]
	for _, from := range h.Workers {
		f32.AddTo(h.first.W.Grad[c*n:(c+1)*n], from.restGrad[i*n:(i+1)*n])
	}
}

// Rest returns, after End, the gradient of the other columns, rows×R.
func (p *Distinct) Rest() (dx []float32) { return p.dx }

// endOf is End for embeddings first to end.
func (h *DistinctWorker) endOf(first, end int) {
	if h.half != nil {
		h.bf16.endOf(h, first, end)
		return
	}
	for j := 0; j < h.first.out; j += f32.TileColumns {
		dy := h.dy[j*h.rows:][:h.rows*f32.TileColumns]
		for lo, hi := first, 0; lo < end; lo = hi {
			hi = min(h.group(lo), end)
			h.add(lo, hi, dy)
			for i := lo; i < hi; i++ {
				h.gradients(&h.columns[i], j)
			}
		}
	}
}

// add sets the rows of embeddings lo to hi in the tile to the sums of the rows of dy in which
// they occur.
func (h *DistinctWorker) add(lo, hi int, dy []float32) {
	stride := f32.TileStride(h.rows)
	h.set = h.set[:0]
	for i := lo; i < hi; i++ {
		q := &h.columns[i]
		set := q.first * f32.TileColumns
		if !q.inOrder {
			clear(h.of(q))
			set = len(h.tile)
		}
		h.set = append(h.set, set)
	}
	for r := 0; r < h.rows; r += blockRows {
		end := min(r+blockRows, h.rows)
		for i := lo; i < hi; i += together {
			last := min(i+together, hi)
			f32.TileAdd(h.tile, dy[r*f32.TileColumns:end*f32.TileColumns], h.at[i*stride+r:last*stride], stride, end-r, h.set[i-lo:last-lo])
		}
	}
}

// gradients adds the gradients of an embedding's weights and rows in columns j and following.
func (h *DistinctWorker) gradients(q *embedding, j int) {
	l, out, tile := h.first, h.first.out, h.of(q)
	f32.TileGradWeight(l.W.Grad[q.Col*out:(q.Col+q.Dim)*out], q.Rows, tile, q.n, q.Dim, out, j)
	f32.TileGradInput(q.Grad, tile, &h.packed, &h.scratch, q.n, q.Col, q.Dim, j)
}
