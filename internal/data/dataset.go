package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Dataset is a list of files, cut into blocks, with the names of their fields. Open it on
// every rank; then Scan, merge the counts, and Use them.
type Dataset struct {
	set     *record.Set
	schema  schema.Schema  // with defaults filled in
	late    []string       // fields of the schema in no record read by Open
	absent  []string       // fields that no record has a value of
	sample  *signal.Sample // of the columns, see Leaks; nil before Use
	excuse  bool           // late fields are optional
	onwards bool           // some file can only be read from its beginning
	digest  uint64

	compared []bool // by file: Scan has compared the first row group with its statistics

	selection
	totals
	memory *memory                         // of the records, if they fit
	limits limits                          // of memory
	letter func(at record.Fault, b []byte) // called by Scan with each unusable record; nil: none
	byRow  bool                            // Scan checks tables row by row, for tests
	chosen [3]func() []int32               // selected rows of each group, by Select
}

// totals holds the counts of all blocks, set by Use.
type totals struct {
	records         []int32 // of each block
	flawed          []int32 // unusable records of each block
	rowBase         []int64 // records of the dataset before each block
	groups          []group
	firstGroup      []int32 // of each block, and the number of groups at the end
	held            int64   // bytes of all records in memory
	rows, positives int64
	trainPositives  int64
	sums            labelSums
	bad             int64 // unusable records
	faults          []record.Fault
	excluded        int64  // records that Source.Where excludes
	content         uint64 // digest of all records
	anyOrder        uint64 // digest of all records that does not depend on the order of the files
}

// Open finds the files that patterns name: paths, globs, folders and
// builtin:NAME. The settings of src apply to all of them, except its lists of
// files, and every file has the same fields. All faults of source and schema
// are reported at once.
func Open(src schema.Source, s schema.Schema, patterns []string) (*Dataset, error) {
	files, err := record.OpenSelected(src, patterns)
	if err != nil {
		return nil, err
	}
	return open(files, s)
}

// OpenSpan is Open of the current span of a stream.
func OpenSpan(src schema.Source, s schema.Schema, at stream.Position) (*Dataset, error) {
	files, err := record.OpenParts(src, at.Span, at.Parts)
	if err != nil {
		return nil, err
	}
	return open(files, s)
}

func open(files *record.Set, s schema.Schema) (*Dataset, error) {
	d, err := look(files, s)
	if err != nil {
		return nil, err
	}
	first := d.set.Fields
	d.late = d.set.Come(d.inputs())
	return d, d.open(s, first)
}

// OpenEval is Open for data that a trained model is evaluated on. If records name their
// fields, a field of a feature may be in no record: its value is then missing in each, and
// Absent returns it. The label must be present.
func OpenEval(src schema.Source, s schema.Schema, patterns []string) (*Dataset, error) {
	files, err := record.OpenSelected(src, patterns)
	if err != nil {
		return nil, err
	}
	return OpenSet(files, s, true)
}

// OpenSet is Open of a set of files; with evaluates, it is OpenEval.
func OpenSet(files *record.Set, s schema.Schema, evaluates bool) (*Dataset, error) {
	if !evaluates {
		return open(files, s)
	}
	d, err := look(files, s)
	if err != nil {
		return nil, err
	}
	first := d.set.Fields
	if d.excuse = d.set.Named(); d.excuse {
		d.late = slices.DeleteFunc(slices.Clone(d.inputs()), func(name string) bool { return slices.Contains(first, name) })
	}
	return d, d.open(s, first)
}

// look makes a dataset of files, without checking the schema by their fields. It fails if
// a field has a type that cannot be read.
func look(files *record.Set, s schema.Schema) (*Dataset, error) {
	d := &Dataset{set: files, schema: s.Fill(), memory: new(memory), limits: limits{minGroup, maxHeld}, compared: make([]bool, len(files.Files))}
	if s.Label.IsNone() { // what labels and weights are computed from need not exist
		d.set.Source = d.set.Source.For(d.schema.Fields())
	}
	names := d.set.Source.Reads(d.schema.Fields())
	if err := cmp.Or(d.set.Unreadable(names), d.set.Uncut(names), d.set.Headless(names)); err != nil {
		return nil, err
	}
	return d, nil
}

// open checks the schema against the fields; late fields count as present. first are the
// fields that enter the digest of the dataset.
func (d *Dataset) open(s schema.Schema, first []string) error {
	d.set.Add(d.late)
	if err := d.valid(s, d.set.Fields); err != nil {
		return err
	}
	if err := encode.Readable(d.set.Source, d.set.Fields, d.schema); err != nil {
		return err
	}
	h := xxh3.New()
	for i := range d.set.Files {
		f := &d.set.Files[i]
		fmt.Fprintf(h, "%q %d;", filepath.Base(f.Path()), f.Bytes)
		if lo := f.From(); lo > 0 {
			fmt.Fprintf(h, "from %d;", lo)
		}
		d.onwards = d.onwards || f.Onwards()
	}
	fmt.Fprintf(h, "%q", first)
	d.digest = h.Sum64()
	return nil
}

// valid checks the derived columns and the schema against the fields of records.
func (d *Dataset) valid(s schema.Schema, fields []string) error {
	var faults schema.Faults
	src := d.set.Source
	src.DeriveFaults(fields, func(key, why string) { faults.Bad("data."+key, "%s", why) })
	faults = append(faults, s.Validate(src.WithDerived(fields))...)
	return schema.Joined(d.set.Files[0].Name, faults)
}

// inputs returns the fields that features and expressions need.
func (d *Dataset) inputs() []string {
	fields, label := d.schema.Fields(), d.schema.Label.Field
	if d.schema.Label.IsNone() {
		return d.set.Source.Reads(fields)
	}
	if !slices.ContainsFunc(d.set.Source.Derive, func(x schema.Derived) bool { return x.Name() == label }) {
		return slices.DeleteFunc(d.set.Source.Reads(fields), func(name string) bool { return name == label })
	}
	return d.set.Source.Reads(fields)
}

// Names returns the names of the files in their order.
func (d *Dataset) Names() []string { return d.set.Names() }

// Bytes returns the size of the files as stored.
func (d *Dataset) Bytes() int64 { return d.set.Bytes() }

// Sums returns a Sum of each file, to compare the files with another host's files.
func (d *Dataset) Sums(ends bool) ([]record.Sum, error) { return record.Sums(d.set.Files, ends) }

// HoldOut keeps a share of the records for validation; Fit does not see them. The choice
// depends only on seed and the position of a record in the dataset. Call it before Scan,
// with the same arguments on every rank.
func (d *Dataset) HoldOut(fraction float64, seed uint64) error {
	if !(fraction >= 0 && fraction < 1) {
		return fmt.Errorf("hold out: the fraction is %v, it must be from 0 up to, not including, 1", fraction)
	}
	if d.rowBase != nil {
		return errors.New("hold out: the dataset is in use already")
	}
	d.hold = holdOut{seed: seed, limit: uint64(math.Ldexp(fraction, 64))}
	return nil
}

// Use sets the number of records of each block: the merged counts of all parts of a Scan.
// Call it once, before the first Reader.
func (d *Dataset) Use(c *Counts) error {
	if c.dataset != d.digest {
		return fmt.Errorf("use: counts of another dataset (%016x, here %016x)", c.dataset, d.digest)
	}
	if len(c.spans) != 1 || c.spans[0].first != 0 || len(c.spans[0].records) != len(d.set.Blocks) {
		return fmt.Errorf("use: the counts do not cover all %d blocks; merge the counts of every part", len(d.set.Blocks))
	}
	if err := c.tooBad(d.set.Source.MaxBad); err != nil {
		return err
	}
	d.bad, d.faults = c.bad, c.faults
	t := totals{
		records: c.spans[0].records, flawed: c.spans[0].flawed, groups: c.spans[0].groups, held: c.held,
		positives: c.positives, trainPositives: c.positives - c.heldPositives, sums: c.sums, content: c.content, anyOrder: c.records, bad: c.bad, faults: c.faults, excluded: c.excluded,
	}
	t.rowBase, t.firstGroup = make([]int64, len(d.set.Blocks)), make([]int32, len(d.set.Blocks)+1)
	for i := range d.set.Blocks {
		t.rowBase[i] = t.rows
		t.rows += int64(t.records[i])
	}
	for i := range t.groups {
		t.firstGroup[t.groups[i].block+1]++
	}
	for b := range d.set.Blocks {
		t.firstGroup[b+1] += t.firstGroup[b]
	}
	if t.rows == 0 && c.excluded > 0 {
		return fmt.Errorf("%s: %w", strings.Join(firstNames(d.Names()), ", "), &allExcluded{c.excluded, c.bad, d.set.Source.Where})
	}
	if t.rows == 0 && c.bad > 0 {
		return fmt.Errorf("%s: %w", strings.Join(firstNames(d.Names()), ", "), &allBad{c.bad, c.faults[0]})
	}
	if t.rows == 0 {
		return fmt.Errorf("%s: %w", strings.Join(firstNames(d.Names()), ", "), ErrNoRecords)
	}
	if err := d.Lacks(c); err != nil {
		return err
	}
	if err := d.useKept(c, &t); err != nil {
		return err
	}
	d.absent, d.sample = d.AbsentIn(c), c.sample
	d.totals = t
	for s := range d.chosen {
		d.chosen[s] = sync.OnceValue(func() []int32 { return d.choose(Select(s)) })
	}
	return nil
}

// ErrNoRecords means that the files hold nothing to train on.
var ErrNoRecords = errors.New("there are no records: every line is blank, a comment or a header")

// allBad is the ErrNoRecords of files whose records are all unusable.
type allBad struct {
	n     int64
	first record.Fault
}

func (e *allBad) Error() string {
	return fmt.Sprintf("none of the %d records can be used; the first: %s: %s", e.n, e.first.Place(), e.first.Reason())
}

// allExcluded is the ErrNoRecords of files whose usable records are all excluded by
// Source.Where.
type allExcluded struct {
	n, bad int64
	where  string
}

func (e *allExcluded) Error() string {
	return fmt.Sprintf("there are no records: data.where, %q, excludes %d, and %d cannot be used", e.where, e.n, e.bad)
}

func (e *allExcluded) Is(target error) bool { return target == ErrNoRecords }

func (e *allBad) Is(target error) bool { return target == ErrNoRecords }

// IsEmpty reports whether err means that files hold no records at all, not even unusable
// ones.
func IsEmpty(err error) bool {
	_, bad := errors.AsType[*allBad](err)
	_, excluded := errors.AsType[*allExcluded](err)
	return errors.Is(err, ErrNoRecords) && !bad && !excluded
}

// firstNames returns the first three names and the number of others.
func firstNames(names []string) []string {
	const few = 3
	if len(names) > few {
		names = append(names[:few], fmt.Sprintf("and %d more", len(names)-few))
	}
	return names
}

// Select is the set of records that a Reader reads.
type Select int

const (
	Train Select = iota // records not held out, without the negatives that KeepNegatives leaves out
	Valid               // records held out by HoldOut
	All
)

// choose counts the selected records of each group, without reading them.
func (d *Dataset) choose(sel Select) []int32 {
	rows := make([]int32, len(d.groups))
	for g := range d.groups {
		x := &d.groups[g]
		if rows[g] = x.rows; sel == All || sel == Train && !d.holdsOut() && d.drop.limit == 0 {
			continue
		}
		rows[g] = 0
		for r := x.row; r < x.row+x.rows; r++ {
			if d.selects(sel, int(x.block), r) {
				rows[g]++
			}
		}
	}
	return rows
}

// selects reports whether sel contains row r of block b.
func (d *selection) selects(sel Select, b int, r int32) bool {
	return sel == All || d.holds(b, r) == (sel == Valid) && (sel == Valid || !d.drops(b, r))
}

// Rows returns the number of records in sel; 0 before Use.
func (d *Dataset) Rows(sel Select) (n int64) {
	if d.rowBase == nil || sel < Train || sel > All {
		return 0
	}
	for _, r := range d.chosen[sel]() {
		n += int64(r)
	}
	return n
}

// Positives returns the number of records whose label is 1; 0 before Use.
func (d *Dataset) Positives() int64 { return d.positives }

// TrainPositives returns the number of records of Train whose label is 1; 0 before Use.
func (d *Dataset) TrainPositives() int64 { return d.trainPositives }

// Excluded returns the number of records that Source.Where excludes, 0 before Use, and of files that
// it excludes by the values of their folders. Those are not read.
func (d *Dataset) Excluded() (records int64, files int) { return d.excluded, d.set.Unselected }

// Bad returns the number of unusable records left out, at most Source.MaxBad, and the
// first faults; 0 before Use.
func (d *Dataset) Bad() (n int64, first []record.Fault) { return d.bad, d.faults }

// Wait makes readers of topics wait for a broker that does not answer, until ctx ends. notify is
// called about every second while one waits. Call Wait before Scan.
func (d *Dataset) Wait(ctx context.Context, notify func(cause error, lasted time.Duration)) {
	for _, f := range d.set.Files {
		if f.Log != nil {
			f.Log.Wait(ctx, notify)
		}
	}
	if x := d.set.Schemas(); x != nil {
		x.Wait(ctx, notify)
	}
}

// ShareSchemas makes readers of topics use the schemas that were fetched for an earlier span, nil for
// the first, and returns those that they use. Call it before Wait.
func ShareSchemas(d *Dataset, before *registry.Schemas) *registry.Schemas {
	if before != nil {
		d.set.UseSchemas(before)
	}
	return d.set.Schemas()
}

// OnBad makes Scan call do with each unusable record, its bytes, and its offset as its place.
func (d *Dataset) OnBad(do func(at record.Fault, b []byte)) { d.letter = do }

// Fingerprint identifies the data by the names and sizes of files and, after Use, by the
// content of every record. A position in an epoch is only valid for data of the same
// fingerprint.
func (d *Dataset) Fingerprint() string {
	h := xxh3.New()
	fmt.Fprintf(h, "%016x %016x", d.digest, d.content)
	for i := range d.records {
		fmt.Fprintf(h, " %d", d.records[i])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// IdentityOf identifies the same data in any order of its files, wherever they are stored: by the
// partitions and sizes of files and, after Use, by the content of every record.
func IdentityOf(d *Dataset) string { return fmt.Sprintf("%016x", f32.Mix(d.anyOrder+filesOf(d))) }

// RowsOf identifies the rows of an evaluation, whichever of their fields are read: by the partitions
// and sizes of files, the numbers of records and of positive labels, and by chosen, which says
// which of the records are evaluated. Call it after Use.
func RowsOf(d *Dataset, chosen string) string {
	h := xxh3.New()
	fmt.Fprintf(h, "%016x %d %d %q", filesOf(d), d.Rows(All), d.Positives(), chosen)
	return fmt.Sprintf("%016x", h.Sum64())
}

// filesOf returns a hash of the partitions and sizes of the files, in any order.
func filesOf(d *Dataset) (sum uint64) {
	for i := range d.set.Files {
		f := &d.set.Files[i]
		h := xxh3.New()
		for part := range strings.SplitSeq(filepath.ToSlash(f.Path()), "/") {
			if strings.Contains(part, "=") { // dt=2026-11-21
				fmt.Fprintf(h, "%q ", part)
			}
		}
		fmt.Fprintf(h, "%d %d", f.Bytes, f.From())
		sum += h.Sum64()
	}
	return sum
}
