package sparse

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Lookup holds the unique keys, rows and gradients of one batch in flight. Its
// buffers grow to the largest batch and are used again for the next. Several may
// be in flight at once. [Store.NewLookup] makes one, of that store alone: the zero
// Lookup belongs to none, and pulling into it panics.
type Lookup struct {
	store      *Store
	state      lookupState
	insert     bool
	number     int64 // of its Pull or Prepare
	generation int64 // the store's then

	features []feature
	sets     []*table.Set // by table: unique keys
	place    [][]uint32   // by table: where in the rows each unique key's row begins
	offsets  []int32      // of all features whose bags are not of one value each
	ones     []int32      // 0, 1, 2, …: the offsets of the others
	at       []uint32     // of all features, by value: where its row begins
	ids      []uint32     // of all features, by value: the number of its key
	coefs    []float32    // of the features that need them

	want  side        // what this rank asks of the owners
	give  side        // what the ranks ask of this owner
	rowAt []int       // by section of want, and one more: where its rows begin
	rows  []float32   // by unique key, in the order of want
	grads []float32   // the same
	held  []table.Row // by key of give: its row, 0 if not held
	epoch []uint64    // by table: its Epoch when held began to be found

	foundIn []uint64 // by table: its Epoch when the rows that travel early were marked

	rooms               rooms
	touched             []uint64   // bits: copied keys of the batch
	copyAt              [][]uint32 // by table and number: where its row begins, if it is touched
	announce, announced []int64
	next                []cursor
	tally               Counters // what the exchange has counted
	early               bool     // rows marked in want and give travel ahead
	phase               phase
	asked               []*table.Set // by table: distinct keys of give
	indexed             bool         // asked is filled
	picked              struct {
		keys []uint64
		held []table.Row
		ids  []uint32
	}
	floats []float32
	batch  []Bags   // what is being prepared
	taken  []Bags   // what is being pulled or prepared
	coming []uint64 // keys of one table that ranks will ask for
	bagged *pooler  // nil if no table is Pooled
	opened []*slot  // by rank: that of the gradients being taken, nil if it does not count
	err    error    // of preparing it

	onPrepare, onPush        func() // what Ahead's goroutine does
	onTake, onPlace, onFetch func(hand int) error

	onKeys, onMarks, onRows, onGrads, onSlots func(from int, part []byte) error // kept so that a step allocates nothing
	onStage, onOpened                         sink
}

type lookupState uint8

const (
	idle     lookupState = iota // nothing pulled, or the pull failed
	prepared                    // Prepare was called and Complete was not
	reading                     // pulled with insert=false
	training
	pushed
)

// feature is one feature of the batch: slices of the Lookup's arenas.
type feature struct {
	table   int
	single  bool      // each bag is one value that counts once
	plain   bool      // every value counts once: no coefs
	offsets []int32   // B+1, or none
	at      []uint32  // by value
	ids     []uint32  // by value, unless owners pool the bags
	coefs   []float32 // by value; nil: all 1
}

func (f *feature) bags() int { return max(0, len(f.offsets)-1) }

// between returns the bags from from to below to.
func (f *feature) between(from, to int) f32.Bags {
	if from == to {
		return f32.Bags{}
	}
	if f.single {
		return f32.Bags{At: f.at[from:to]}
	}
	return f32.Bags{Offsets: f.offsets[from : to+1], At: f.at, Coefs: f.coefs}
}

// cursor is the next place to fill in a section.
type cursor struct {
	key int
	row int
}

// NewLookup returns an empty Lookup of this store.
func (s *Store) NewLookup() *Lookup {
	tables := len(s.tables)
	l := &Lookup{
		store: s, place: make([][]uint32, tables), copyAt: make([][]uint32, tables), epoch: make([]uint64, tables), foundIn: make([]uint64, tables),
		want: newSide(s.size, tables), give: newSide(s.size, tables),
		opened: make([]*slot, s.size), rowAt: make([]int, s.size*tables+1), next: make([]cursor, s.size*tables),
	}
	for _, t := range s.tables {
		set := table.NewSet(t.Salt(), s.shards.owner, s.size)
		if n := len(l.sets); n >= s.hands.n {
			set.Share(l.sets[n%s.hands.n]) // a hand fills one after the other
		}
		l.sets = append(l.sets, set)
		l.asked = append(l.asked, table.NewSet(t.Salt(), nil, 1))
	}
	l.onKeys, l.onMarks, l.onRows = l.takeKeys, l.takeMarks, l.takeRows
	l.onGrads, l.onSlots = l.takeGrads, l.takeSlot
	l.onStage, l.onOpened = l.stage, l.keep
	l.onTake, l.onPlace, l.onFetch = l.takeTables, l.placeTables, l.fetchTables
	if s.pools {
		l.bagged = newPooler(l)
	}
	l.onPrepare = func() { l.err = l.prepare(&s.pipeline.link) }
	l.onPush = func() { s.pipeline.err = s.push(l, &s.pipeline.link) }
	return l
}

// part returns a feature and the offset of part p in its rows; it panics if there
// is none, if there are no bags from to to, or if a matrix of len values with
// rows of stride cannot hold them.
func (l *Lookup) part(call string, f, p, from, to, length, stride int) (*feature, int, int) {
	if l.state <= prepared {
		panic("sparse: " + call + ": nothing has been pulled into this Lookup")
	}
	if f < 0 || f >= len(l.features) {
		panic(fmt.Sprintf("sparse: %s: feature %d of %d", call, f, len(l.features)))
	}
	x := &l.features[f]
	t := l.store.tables[x.table]
	if p < 0 || p >= t.Parts() {
		panic(fmt.Sprintf("sparse: %s: feature %d: part %d of %d of table %q", call, f, p, t.Parts(), t.Config().Name))
	}
	lo, hi := t.Part(p)
	dim := hi - lo
	if from < 0 || to < from || to > x.bags() {
		panic(fmt.Sprintf("sparse: %s: feature %d: bags %d to %d of %d", call, f, from, to, x.bags()))
	}
	if n := to - from; n > 0 && (stride < dim || length < (n-1)*stride+dim) {
		panic(fmt.Sprintf("sparse: %s: feature %d: %d values with stride %d cannot hold %d bags of dim %d", call, f, length, stride, n, dim))
	}
	return x, lo, dim
}

// Pool writes the pooled values of part p of feature f: those of bag b to
// dst[b·stride : b·stride+dim], added to the previous values if add is set.
func (l *Lookup) Pool(f, p int, dst []float32, stride int, add bool) {
	l.PoolRange(f, p, 0, l.bags(f), dst, stride, add)
}

// PoolRange is Pool of the bags from to to alone, the first of them to the
// beginning of dst. Goroutines may call it at once.
func (l *Lookup) PoolRange(f, p, from, to int, dst []float32, stride int, add bool) {
	x, lo, dim := l.part("PoolRange", f, p, from, to, len(dst), stride)
	f32.Pool(dst, stride, l.rows[min(lo, len(l.rows)):], x.between(from, to), dim, add)
}

// PoolGrad is the backward of Pool: it adds the gradient of the pooled values,
// dy[b·stride : b·stride+dim] for bag b, to the gradients of the unique keys.
func (l *Lookup) PoolGrad(f, p int, dy []float32, stride int) {
	l.PoolGradRange(f, p, 0, l.bags(f), dy, stride)
}

// PoolGradRange is PoolGrad of the bags from to to alone, the first of them
// from the beginning of dy. Goroutines may call it at once for features of
// different tables.
func (l *Lookup) PoolGradRange(f, p, from, to int, dy []float32, stride int) {
	x, lo, dim := l.part("PoolGradRange", f, p, from, to, len(dy), stride)
	if l.state != training {
		panic("sparse: PoolGrad: the Lookup was pulled with insert=false or is pushed already")
	}
	f32.PoolGrad(l.grads[min(lo, len(l.grads)):], x.between(from, to), dy, stride, dim)
}

// bags returns how many bags feature f has, 0 if there is no such feature.
func (l *Lookup) bags(f int) int {
	if f < 0 || f >= len(l.features) {
		return 0
	}
	return l.features[f].bags()
}

// NonFinite looks for a value or gradient that is NaN or infinite among the rows
// of the batch and names the first: the way to blame a key for a loss that is
// not a number. Of a bag that owners pooled it is one of the keys; the first is
// named.
func (l *Lookup) NonFinite() (table string, key uint64, found bool) {
	if l.state <= prepared {
		return "", 0, false
	}
	k, w := 0, 0
	for i, n := range l.want.counts {
		t := i % len(l.store.tables)
		width := l.store.tables[t].Width()
		for range n {
			if !finite(l.rows[w:w+width]) || l.state != reading && !finite(l.grads[w:w+width]) {
				return l.store.name(t), l.want.keys[k], true
			}
			k, w = k+1, w+width
		}
	}
	if l.bagged != nil {
		return l.bagged.nonFinite()
	}
	return "", 0, false
}

// finite reports whether all x are: 0·x is 0 for a finite x and NaN otherwise.
func finite(x []float32) bool {
	var sum float32
	for _, v := range x {
		sum += float32(0 * v)
	}
	return sum == 0
}

// The float32 conversions keep products from being fused with sums where the
// processor could, so that every machine gives the same bits.

func addTo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += v
	}
}

func addScaled(dst, x []float32, c float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += float32(c * v)
	}
}
