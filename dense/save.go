package dense

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/optim"
)

// A saved arena, little-endian:
//
//	magic "wdldense" | version u32 | entries u32
//	entry:  kind u8 | name length u16 | name | rows u32 | cols u32
//	        rule length u8 | rule kind | state length u32
//	        values  rows·cols × f32
//	        state   state length × f32
//	xxh3-64 of everything before u64
//
// Kind is 0 for a parameter and 1 for running statistics, which have no rule and no state.
// Entries are in the order of their declaration.
const (
	saveMagic   = "wdldense"
	saveVersion = 1
	maxName     = 1 << 10 // length of a name, in bytes
)

// entry is the header of one saved array, with the arrays of the model that it belongs to.
type entry struct {
	kind       uint8
	name       string
	rows, cols int
	rule       string
	values     []float32
	state      []float32
}

func (e entry) String() string {
	what := "parameter"
	if e.kind == 1 {
		what = "statistics"
	}
	return fmt.Sprintf("%s %s %d×%d", what, e.name, e.rows, e.cols)
}

// entries returns the arrays that the arena saves.
func (a *Arena) entries() []entry {
	all := make([]entry, 0, len(a.params)+len(a.buffers))
	for _, p := range a.params {
		e := entry{name: p.Name, rows: p.Rows, cols: p.Cols, values: p.Value, state: p.State}
		if len(a.groups) > 0 {
			e.rule = a.groups[p.group].Rule.Default().Kind
		}
		all = append(all, e)
	}
	for _, b := range a.buffers {
		all = append(all, entry{kind: 1, name: b.name, rows: 1, cols: b.size, values: b.value})
	}
	return all
}

// Save writes parameters, running statistics and optimizer state. Gradients and
// tail are not saved.
func (a *Arena) Save(w io.Writer) error {
	if !a.built {
		panic("dense: Arena.Save: comes before Build")
	}
	h := xxh3.New()
	out := io.MultiWriter(w, h)
	entries := a.entries()
	head := append([]byte(nil), saveMagic...)
	head = binary.LittleEndian.AppendUint32(head, saveVersion)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(entries)))
	for _, e := range entries {
		head = append(head, e.kind)
		head = binary.LittleEndian.AppendUint16(head, uint16(len(e.name)))
		head = append(head, e.name...)
		head = binary.LittleEndian.AppendUint32(head, uint32(e.rows))
		head = binary.LittleEndian.AppendUint32(head, uint32(e.cols))
		head = append(append(head, uint8(len(e.rule))), e.rule...)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(e.state)))
		for _, b := range [][]byte{head, raw.Bytes(e.values), raw.Bytes(e.state)} {
			if _, err := out.Write(b); err != nil {
				return fmt.Errorf("dense: save: %s: %w", e.name, err)
			}
		}
		head = head[:0]
	}
	if _, err := out.Write(head); err != nil { // an arena without entries
		return fmt.Errorf("dense: save: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, h.Sum64())); err != nil {
		return fmt.Errorf("dense: save: checksum: %w", err)
	}
	return nil
}

// Load replaces parameters, running statistics and optimizer state by those that Save wrote
// for a model with the same layers and rules. It clears the gradients. An arena built
// without groups ignores the state. Load reads exactly the bytes that Save wrote. On an
// error the arena is unchanged. Its memory is bounded by the size of the model, whatever
// the input contains.
func (a *Arena) Load(r io.Reader) error {
	if !a.built {
		panic("dense: Arena.Load: comes before Build")
	}
	in := &summed{from: r, sum: xxh3.New()}
	values, state := make([]float32, 0, len(a.values)), make([]float32, 0, len(a.state))
	entries := a.entries()
	if err := in.start(len(entries)); err != nil {
		return fmt.Errorf("dense: load: %w", err)
	}
	for i, e := range entries {
		n, s := len(values)+len(e.values), len(state)+len(e.state)
		values, state = values[:n], state[:s]
		if err := in.entry(e, values[n-len(e.values):], state[s-len(e.state):]); err != nil {
			return fmt.Errorf("dense: load: entry %d of %d: %w", i+1, len(entries), err)
		}
	}
	if err := in.end(); err != nil {
		return fmt.Errorf("dense: load: %w", err)
	}
	copy(a.values, values)
	copy(a.state, state)
	a.Changed()
	a.ZeroGrad()
	return nil
}

// summed reads from a reader and computes the checksum.
type summed struct {
	from    io.Reader
	sum     *xxh3.Hasher
	scratch [4]byte
}

var errShort = errors.New("the data ends here: it was cut short")

func (s *summed) read(b []byte) error {
	if _, err := io.ReadFull(s.from, b); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errShort
		}
		return err
	}
	_, _ = s.sum.Write(b) // a hash never fails
	return nil
}

// number reads an unsigned integer of size bytes, at most 4.
func (s *summed) number(size int) (int, error) {
	s.scratch = [4]byte{}
	err := s.read(s.scratch[:size])
	return int(binary.LittleEndian.Uint32(s.scratch[:])), err
}

// text reads a string whose length has size bytes and is at most limit.
func (s *summed) text(size, limit int) (string, error) {
	n, err := s.number(size)
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", fmt.Errorf("a name of %d bytes, at most %d are allowed: the data is damaged", n, limit)
	}
	b := make([]byte, n)
	err = s.read(b)
	return string(b), err
}

// end reads and checks the checksum.
func (s *summed) end() error {
	want := s.sum.Sum64()
	var got [8]byte
	if err := s.read(got[:]); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if g := binary.LittleEndian.Uint64(got[:]); g != want {
		return fmt.Errorf("checksum %016x is stored, the content has %016x: the data is damaged, use an earlier checkpoint", g, want)
	}
	return nil
}

// begin reads the header of the file and returns the number of entries.
func (s *summed) begin() (entries int, err error) {
	var magic [len(saveMagic)]byte
	if err := s.read(magic[:]); err != nil {
		return 0, err
	}
	if string(magic[:]) != saveMagic {
		return 0, fmt.Errorf("begins with %q, not %q: this is not a saved arena", magic[:], saveMagic)
	}
	version, err := s.number(4)
	if err != nil {
		return 0, err
	}
	if version != saveVersion {
		return 0, fmt.Errorf("format version %d, this program reads version %d: use the program that wrote it", version, saveVersion)
	}
	return s.number(4)
}

// start reads the header of a file that must have the given number of entries.
func (s *summed) start(entries int) error {
	n, err := s.begin()
	if err == nil && n != entries {
		err = fmt.Errorf("%d entries are stored, the model has %d: its layers are not those that were saved", n, entries)
	}
	return err
}

// entry reads one entry, which must match want, and its arrays.
func (s *summed) entry(want entry, values, state []float32) error {
	have, stateLen, err := s.head()
	if err != nil {
		return fmt.Errorf("head of %s: %w", want.name, err)
	}
	if have.String() != want.String() {
		return fmt.Errorf("stored is %v, the model has %v: its layers are not those that were saved", have, want)
	}
	known := have.rule == "" || have.kind == 0 && slices.Contains(optim.Kinds(), have.rule)
	if !known || have.rule == "" && stateLen != 0 ||
		have.rule != "" && stateLen != (optim.Rule{Kind: have.rule}).StateLen(len(values)) {
		return fmt.Errorf("%s: %d floats of state of rule %q: the data is damaged", want.name, stateLen, have.rule)
	}
	if want.rule != "" && have.rule != want.rule {
		return fmt.Errorf("%s: the state of rule %q is stored, the model trains with %q: use the rule it was saved with", want.name, have.rule, want.rule)
	}
	if err := s.read(raw.Bytes(values)); err != nil {
		return fmt.Errorf("%s: values: %w", want.name, err)
	}
	if want.rule == "" {
		err = s.skip(4 * int64(stateLen))
	} else {
		err = s.read(raw.Bytes(state))
	}
	if err != nil {
		return fmt.Errorf("%s: state: %w", want.name, err)
	}
	return nil
}

// head reads the header of an entry.
func (s *summed) head() (e entry, stateLen int, err error) {
	var n int
	if n, err = s.number(1); err != nil {
		return e, 0, err
	}
	if e.kind = uint8(n); n > 1 {
		return e, 0, fmt.Errorf("kind %d is neither 0 nor 1: the data is damaged", n)
	}
	if e.name, err = s.text(2, maxName); err != nil {
		return e, 0, err
	}
	if e.rows, err = s.number(4); err != nil {
		return e, 0, err
	}
	if e.cols, err = s.number(4); err != nil {
		return e, 0, err
	}
	if e.rule, err = s.text(1, 255); err != nil {
		return e, 0, err
	}
	stateLen, err = s.number(4)
	return e, stateLen, err
}

// skip reads and discards n bytes.
func (s *summed) skip(n int64) error {
	if m, err := io.CopyN(s.sum, s.from, n); err == io.EOF && m < n {
		return errShort
	} else if err != nil {
		return err
	}
	return nil
}
