package table

// shape is the layout of a row.
type shape struct {
	cfg       Config
	salt      uint64
	parts     []part
	runs      []run     // runs of parts
	width     int       // V: number of values of a row
	packed    int       // words of 4 bytes that the values take in a record
	fresh     []float32 // S floats: state of a row before its first step
	dense     bool      // a part has DenseL2
	decays    bool      // a step without a gradient changes a part
	deferring bool      // rows may take such steps later
	record    []float32 // scratch: V+S
}

// part is a Part with its position in a record.
type part struct {
	Part
	lo, hi           int // range of values
	stateLo, stateHi int // range of words in the record
	initial          initial
	stateOfValues    bool // a new row's state depends on its values
	decays           bool // it has DenseL2, and a step without a gradient changes it
	frozen           int64
}

// run is a range of adjacent parts that are updated as one.
type run struct {
	first int // first part
	dim   int // total values
}

// newShape assigns the parts of a row their positions in its record.
func newShape(cfg Config, seed uint64) (t shape) {
	t.cfg, t.salt = cfg, Salt(cfg.Name)
	for _, p := range cfg.Parts {
		t.parts = append(t.parts, part{
			Part: p, lo: t.width, hi: t.width + p.Dim,
			initial: newInitial(p.Init, seed, cfg.Name, p.Name),
		})
		t.width += p.Dim
		t.dense = t.dense || p.DenseL2
	}
	t.packed = t.width
	if cfg.Values == BFloat16 {
		t.packed = (t.width + 1) / 2
	}
	for i := range t.parts {
		p := &t.parts[i]
		state := make([]float32, p.Rule.StateLen(p.Dim))
		p.Rule.InitState(nil, state)
		p.stateOfValues = p.Rule.Kind == "ftrl" && p.Init.Kind != "zero"
		p.decays = p.changesUntouched()
		t.decays = t.decays || p.decays
		p.stateLo = t.packed + len(t.fresh)
		p.stateHi = p.stateLo + len(state)
		t.fresh = append(t.fresh, state...)
	}
	t.runs, t.deferring = runs(t.parts), canDefer(t.parts)
	t.record = make([]float32, t.RecordLen())
	return t
}

// runs joins adjacent parts if one step on all their values equals the steps on each: if
// they have the same rule, and it keeps no state or one number per value.
func runs(parts []part) (all []run) {
	for i := range parts {
		p := &parts[i]
		if n := len(all); n > 0 {
			q := &parts[all[n-1].first]
			each := p.Rule.Kind == "sgd" || p.Rule.Kind == "adagrad"
			if each && p.Rule.Equal(q.Rule) && p.L2 == q.L2 && p.decays == q.decays && p.frozen == q.frozen {
				all[n-1].dim += p.Dim
				continue
			}
		}
		all = append(all, run{i, p.Dim})
	}
	return all
}

// canDefer reports whether steps without a gradient change rows and may be taken later: such steps
// of one rate must be equal and change each value by itself.
func canDefer(parts []part) (decays bool) {
	for i := range parts {
		if p := &parts[i]; p.decays && p.Rule.Kind != "sgd" && p.Rule.Kind != "adagrad" || p.frozen > 0 {
			return false
		}
		decays = decays || parts[i].decays
	}
	return decays
}

// changesUntouched reports whether a step without a gradient may change a row of the part.
func (p *part) changesUntouched() bool {
	if !p.DenseL2 {
		return false
	}
	switch p.Rule.Kind {
	case "sgd", "adagrad", "rowwise_adagrad":
		return p.L2 != 0
	case "ftrl":
		return p.L2 != 0 || p.stateOfValues // its first step rounds the initial values
	}
	return true
}

// words returns the number of 4-byte words of a record in memory.
func (t *shape) words() int { return t.packed + len(t.fresh) }

// Config returns the configuration in effect, with defaults filled in.
func (t *shape) Config() Config { return t.cfg.Default() }

// Width returns V, the number of values of a row over all parts.
func (t *shape) Width() int { return t.width }

// RecordLen returns V+S, the number of values and state floats of a row.
func (t *shape) RecordLen() int { return t.width + len(t.fresh) }

// Part returns the range, lo to hi, of part p in the values of a row.
func (t *shape) Part(p int) (lo, hi int) { return t.parts[p].lo, t.parts[p].hi }

// Parts returns the number of parts of a row.
func (t *shape) Parts() int { return len(t.parts) }

// Salt returns Salt of the table's name.
func (t *shape) Salt() uint64 { return t.salt }

// rowBytes returns the memory of a row without its index entry, in bytes.
func (t *shape) rowBytes() int64 {
	n := int64(4*t.words() + 4)
	if t.cfg.Evict.HalfLife > 0 {
		n += 4
	}
	if t.deferring {
		n += 4
	}
	return n
}

// Initial writes the V initial values of a key.
func (t *shape) Initial(key uint64, values []float32) {
	for i := range t.parts {
		p := &t.parts[i]
		p.initial.fill(key, values[p.lo:p.hi])
	}
}

// begins writes the state of a record that holds the initial values.
func (t *shape) begins(rec []float32) {
	copy(rec[t.packed:], t.fresh)
	for i := range t.parts {
		if p := &t.parts[i]; p.stateOfValues {
			p.Rule.InitState(t.values(rec)[p.lo:p.hi], rec[p.stateLo:p.stateHi])
		}
	}
}

// values returns the values of a record, in place if they are stored as float32.
func (t *shape) values(rec []float32) []float32 {
	if t.cfg.Values == Float32 {
		return rec[:t.width]
	}
	expand(t.record[:t.width], rec)
	return t.record[:t.width]
}

// widen converts a record from its memory format to float32.
func (t *shape) widen(rec []float32) []float32 {
	if t.cfg.Values == Float32 {
		return rec
	}
	expand(t.record[:t.width], rec)
	copy(t.record[t.width:], rec[t.packed:])
	return t.record
}
