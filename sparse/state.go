package sparse

import (
	"slices"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Store is one rank's part of the sharded tables. A trainer needs Open, NewLookup,
// Pull, Push, Apply and Close. The other groups of calls are optional: Pipeline works
// ahead, Slots keeps microbatches separate, Files saves and loads, Shards moves shards
// between ranks, RowNorms and ObserveGradients measure rows and gradients, and Replica
// survives the loss of a rank.
type Store struct {
	link
	rank, size int
	cfg        Config
	print      uint64 // fingerprint of cfg and the owners
	tables     []*table.Table
	exchanged
	update

	pulls      int64     // number of Pulls; a difference shows ranks out of step
	stepped    int64     // last step applied; likewise
	generation int64     // number of Resets, to detect stale Lookups
	closed     bool      // Close was called
	inFlight   []*Lookup // pulled for training, and not applied yet
	staged     []*staged // by table
	ids        []uint32  // scratch memory: numbers of keys
	workers    workers
	counters   Counters

	pipeline Pipeline
	slots    Slots
	replica  Replica
	shards   Shards
	files    Files
	norms    norms
}

// exchanged holds how the tables are exchanged, from their configurations.
type exchanged struct {
	wire    []Wire     // by table
	how     []Strategy // by table
	still   []bool     // by table: a step only changes the rows of its keys
	early   bool       // any table is still: rows can be sent ahead
	pools   bool       // a table is pooled by its owners
	encodes bool       // the gradients of any table are encoded
	decays  bool       // any table has DenseL2 parts
}

// add adds a table and reports whether it has DenseL2 parts.
func (x *exchanged) add(c Table) (decays bool) {
	decays = slices.ContainsFunc(c.Parts, func(p Part) bool { return p.DenseL2 })
	still := c.Evict == table.Evict{} && !decays
	x.wire, x.how, x.still = append(x.wire, c.Wire), append(x.how, c.Strategy), append(x.still, still)
	x.early = x.early || still
	x.pools = x.pools || c.Strategy == Pooled
	x.encodes = x.encodes || c.Wire.Gradients != FP32
	x.decays = x.decays || decays
	return decays
}

// name returns the name of a table.
func (s *Store) name(table int) string { return s.cfg.Tables[table].Name }

// update is the optimizer step in progress.
type update struct {
	at      Step
	applied []table.Applied // by table
	past    table.Past      // previous steps, for tables with DenseL2 parts
	norm    table.Sum

	onCheck, onApply func(worker int) error // method values, kept so that a step allocates nothing
}

// staged holds the gradients of one table until the next Apply: one per distinct key,
// summed over ranks.
type staged struct {
	set    *table.Set
	rows   []table.Row // by number in set: the key's row as of epoch, 0 if not held
	epoch  uint64
	grads  []float32 // by number in set: V values
	lent   bool      // rows and grads belong to a Lookup, until its next pull
	finite bool      // all grads were checked to be finite, and none was added since
}

// Pipeline prepares and pushes batches in a background goroutine. The results are those
// of Pull and Push, to the bit.
type Pipeline struct {
	store   *Store
	link    // the exchanger of the goroutine, if there is one
	work    chan func()
	done    chan struct{}
	busy    int     // tasks that have not been waited for
	waiting *Lookup // prepared and not completed

	pushing bool  // a push has begun and no Apply has waited for it
	err     error // error of that push
}

// Slots keeps the gradients of the microbatches of a step separate until it is decided
// which of them count. A slot is the number of a microbatch within its step.
type Slots struct {
	store    *Store
	waiting  []*slot // ascending
	free     []*slot
	tags     []int64  // by rank: the slot of this rank
	received []int64  // by rank
	nothing  []uint64 // gradients that PushNone sends
}

// slot holds the gradients of one microbatch for this owner.
type slot struct {
	number int
	tables []slotTable
}

type slotTable struct {
	keys   []uint64
	held   []table.Row // as of epoch
	epoch  uint64
	values []float32
}

// delivery stores the gradients that arrive with a batch in the slots of their ranks.
type delivery struct {
	l      *Lookup
	opened []*slot // by rank: slot of its gradients, nil if they do not count

	onGrads func(from int, part []byte) error // method value, kept so that a step allocates nothing
	onKeep  sink
}

// Replica is this rank's copy of the shards of another rank, its ward. The copy takes
// every optimizer step of the ward with the same gradients in the same order, so it is
// equal bit for bit. Another rank, the buddy, holds the copy of this rank's shards.
type Replica struct {
	store  *Store
	tables []*table.Table // nil: no copies are kept
	buddy  []int          // by rank
	ward   int            // the ward of this rank
	staged []forwarded    // by table: gradients of the ward for the next Apply

	sizes, received []int64 // keys by rank and table
	sent, got       []int   // bytes by rank
	wire            sendBuffer
	onSums          func(from int, part []byte) error
}

// forwarded holds the summed gradients of a table of the ward.
type forwarded struct {
	keys  []uint64
	grads []float32
}

// Shards is the assignment of shards to ranks, with the measured load of each shard.
type Shards struct {
	store   *Store
	owner   []int32     // by shard
	loads   []ShardLoad // by shard: requested keys
	carried []int64     // by table: bytes
}

// Files saves and loads the shards of this rank, and moves cold rows to disk.
type Files struct {
	store  *Store
	record []float32 // scratch memory of Put
}

// norms calls observe with the norms of gradients.
type norms struct {
	every   int64 // steps; 0: no gradients are observed
	observe func(table int, norm float64)
}

// Lookup holds the unique keys, rows and gradients of one batch in flight. Its buffers
// grow to the largest batch and are reused. Several Lookups may be in flight at once.
// Store.NewLookup makes a Lookup for that store; Pull panics if it gets the zero
// Lookup.
type Lookup struct {
	pull
	state      lookupState
	generation int64     // of the store at the Pull or Prepare
	grads      []float32 // by unique key, in the order of want
	pending    []Bags    // bags being prepared
	err        error     // error of preparing them
	delivery   delivery
	first      bool // its gradients are the first to be staged for the next Apply

	onPrepare, onPush func()                            // run by the goroutine of a Pipeline
	onGrads           func(from int, part []byte) error // method value, kept so that a step allocates nothing
	onStage           sink
}

type lookupState uint8

// pull is the exchange of a batch: the rows that this rank requests, and those that it
// sends as an owner.
type pull struct {
	batch
	insert bool
	number int64 // number of its Pull or Prepare
	step   int64 // last step applied before it
	early  bool  // rows marked in want and give are sent ahead
	phase  phase

	give    side        // keys that the ranks request from this owner
	held    []table.Row // by key of give: its row, 0 if not held
	epoch   []uint64    // by table: its Epoch before held was filled
	foundIn []uint64    // by table: its Epoch when the rows sent early were marked

	announce, announced []int64
	asked               []*table.Set  // by table: distinct keys of give, if there are other ranks
	ids                 []uint32      // by key of give: its number in asked
	found               [][]table.Row // by table and number in asked: the row; scratch
	picked              picked
	floats              []float32
	coming              []uint64 // keys of one table that ranks will request

	onIndex, onFind, onFetch func(worker int) error
	onKeys, onMarks, onRows  func(from int, part []byte) error // method values, kept so that a step allocates nothing
}

// picked holds some keys of a table.
type picked struct {
	keys []uint64
	held []table.Row
}

// phase selects the rows of a batch to send: all at once, or first those that no batch in
// flight will change and then the others.
type phase uint8

// batch holds the keys of a Lookup: the distinct ones by table, and in sections by owner.
type batch struct {
	store    *Store
	features []feature
	sets     []*table.Set // by table: unique keys
	place    [][]uint32   // by table: offset in rows of each unique key's row
	offsets  []int32      // offsets of all features except those with one value per bag
	ones     []int32      // 0, 1, 2, …: the offsets of features with one value per bag
	at       []uint32     // of all features, by value: offset of its row
	ids      []uint32     // of all features, by value: number of its key
	coefs    []float32    // of the features that need them
	taken    []Bags       // bags being taken

	want  side      // keys that this rank requests from the owners
	rowAt []int     // by section of want, plus the end: offset of its rows
	rows  []float32 // by unique key, in the order of want
	next  []cursor  // by section of want
	send  sendBuffers
	tally Counters // counts of the exchange

	bagged *pooler // nil if no table is Pooled

	onTake, onPlace func(worker int) error // method values, kept so that a step allocates nothing
}

// feature is one feature of the batch: slices of the Lookup's arenas.
type feature struct {
	table   int
	single  bool      // each bag is one value with factor 1
	plain   bool      // all factors are 1: no coefs
	offsets []int32   // B+1 offsets, or none
	at      []uint32  // by value
	ids     []uint32  // by value, unless owners pool the bags
	coefs   []float32 // by value; nil: all 1
}

// side is one end of an exchange of keys. It has a section for each (rank, table), with all
// tables of rank 0 first.
type side struct {
	counts    []int64 // by section: number of keys
	at        []int   // by section, plus the end: index of its first key
	keys      []uint64
	keyBytes  []int  // by rank
	rowBytes  []int  // by rank: bytes of the rows sent in the current phase
	gradBytes []int  // by rank
	markBytes []int  // by rank
	markAt    []int  // by rank: offset of its first byte in marks
	marks     []byte // a bit for each key of other ranks
}

// pooler is the part of a Lookup for Pooled tables. An owner sends one sum for each bag
// that has keys of its shards, and receives one gradient for it. The Lookup stores the
// pooled bags among its rows, each as one value, so that Pool and PoolGrad work as for
// other features.
//
// The sum of a bag adds the sums of its owners in rank order. Each owner sums its values
// first to last. An owner converts the gradients of a rank's bags to gradients of its
// distinct keys, in the order of features, bags and values. From then on they are treated
// like the gradients that a rank sends for rows. All numbers are sent as float32.
type pooler struct {
	l        *Lookup
	features []int    // features of the batch with pooled tables
	ask      []stream // requests, by owner
	asked    []stream // requests received, by rank
	wire     sendBuffer
	sizes    [2][]int // bytes by rank: of the sums that this rank requests, of those requested from it
	rows     []float32
	held     []table.Row
	sets     []*table.Set // by table: distinct keys of one rank; nil for other tables
	grads    [][]float32  // by table: gradients of these keys
	notFound []table.Row  // zeros: Apply finds these rows
	unknown  []int64      // by feature of the batch: values pooled here without a row
	sink     sink

	onAsked, onSums, onGrads func(from int, part []byte) error // method values, kept so that a step allocates nothing
}

// sink receives the gradients of a rank's distinct keys for a table.
type sink func(from, t int, keys []uint64, held []table.Row, grads []float32)

// stream is the request to one owner: for each feature its table and bags, and the number
// of keys of each bag; then all keys, then all factors.
type stream struct {
	counts []uint32
	keys   []uint64
	coefs  []float32
}

const (
	idle     lookupState = iota // nothing pulled, or the pull failed
	prepared                    // Prepare was called, Complete not yet
	reading                     // pulled with insert=false
	training
	pushed
)

// cursor is the next position to fill in a section.
type cursor struct {
	key int
	row int
}

// Step is [optim.Step]: the number of the step and the factors of its gradients.
type Step = optim.Step

// loadEvery is the interval, in Pulls, at which the loads of shards are measured. Counting
// every key of every batch would cost a tenth of the lookup.
const loadEvery = 8

// wait waits until the goroutine uses no table.
func (p *Pipeline) wait() {
	for ; p.busy > 0; p.busy-- {
		<-p.done
	}
}
