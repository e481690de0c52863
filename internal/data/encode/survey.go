package encode

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Survey checks the rows of a table, and gathers their statistics, column by column: an entry of
// a dictionary once, however many rows have it. Its results equal the results of RowCoder.Check and
// Fit.Add for each row. It belongs to one goroutine, and so does its RowCoder.
type Survey struct {
	*RowCoder
	records table.Records
	spans   []table.Span
	columns []surveyed // by column of the parser
	rows    int        // loaded
	odd     []bool     // by row: it must be checked alone
	taken   []bool     // by row: Watch looks at it
	kept    []bool     // by row: it is added to the Fit
	watch   *Watch
}

// surveyed is a column.
type surveyed struct {
	column  int
	ids     []int   // sparse features of ids
	numeric bool    // or it has ids: some values are faulty
	single  bool    // its values are read row by row
	at      []int32 // if so, by row: the index of the value, −1 for none
	fit     *fitColumn
	learned bool // the dictionary has been checked
	bad     []bool
	someBad bool
	dict    *table.Values // the dictionary, if entries of it are in counts
	counts  []int32       // by entry: rows to be added to the Fit
	missing int64         // rows without a value to be added to the Fit
}

// surveyRows is the number of rows loaded together: few enough to stay in a cache.
const surveyRows = 128

// NewSurvey returns a Survey of rows that r would check, for w and for fit, which may be nil. Single is
// a column that Text reads, −1 for none. It returns nil if a feature may have lists or is derived.
func NewSurvey(r *RowCoder, w *Watch, fit *Fit, single int) *Survey {
	p, c := r.parser, r.coder
	if hasLists(c) || p.derives {
		return nil
	}
	x := &Survey{RowCoder: r, watch: w, spans: make([]table.Span, len(p.columns)), columns: make([]surveyed, len(p.columns))}
	x.odd, x.taken, x.kept = make([]bool, surveyRows), make([]bool, surveyRows), make([]bool, surveyRows)
	for i := range x.columns {
		x.columns[i] = surveyed{column: i, numeric: p.numeric[i], single: i == 0 || i == single}
	}
	for i := range c.sparse {
		if f := &c.sparse[i]; f.encoding == schema.ID {
			x.columns[f.column].ids = append(x.columns[f.column].ids, i)
		}
	}
	for i := range p.targets {
		x.columns[p.targets[i].column].single = true
	}
	for i := range x.columns {
		if s := &x.columns[i]; s.single {
			s.at = make([]int32, surveyRows)
		}
	}
	if fit != nil {
		for i := range fit.columns {
			x.columns[fit.columns[i].column].fit = &fit.columns[i]
		}
	}
	return x
}

// Begin prepares x for another row group.
func (x *Survey) Begin() {
	x.records.Begin()
	for i := range x.columns {
		x.columns[i].learned = false
	}
}

// Load reads the next rows of a row group, and returns their number. It returns false if these rows
// must be read one by one.
func (x *Survey) Load(from *table.Reader) (n int, ok bool) {
	n, err := from.Next(surveyRows, x.spans)
	if err != nil || !x.records.Set(x.spans, n) {
		return 0, false
	}
	x.rows = n
	clear(x.odd)
	clear(x.taken)
	clear(x.kept)
	for i := range x.columns {
		s := &x.columns[i]
		if span := &x.spans[i]; s.single {
			for r, k := range valuesOf(span, n) {
				s.at[r] = int32(k)
			}
		}
		if s.numeric || len(s.ids) > 0 {
			x.checkColumn(s)
		}
	}
	return n, true
}

// Record returns row i as a record.
func (x *Survey) Record(i int) []byte { return x.records.Row(i) }

// valuesOf yields the index of the value of each row, −1 for none.
func valuesOf(s *table.Span, rows int) func(yield func(row, k int) bool) {
	return func(yield func(row, k int) bool) {
		next := 0
		for r := range rows {
			k := -1
			if s.There == nil || s.There[r] == s.Most {
				if k = s.First + next; s.Index != nil {
					k = int(s.Index[next])
				}
				next++
			}
			if !yield(r, k) {
				return
			}
		}
	}
}

// checkColumn marks the rows whose value is faulty.
func (x *Survey) checkColumn(s *surveyed) {
	span := &x.spans[s.column]
	if span.Values.Kind() == value.Int {
		return
	}
	if span.Dict != 0 && !s.learned {
		s.learned, s.someBad, s.bad = true, false, s.bad[:0]
		for k := range span.Values.Len() {
			bad := !x.isSound(s, span.Values, k)
			s.bad, s.someBad = append(s.bad, bad), s.someBad || bad
		}
	}
	if span.Dict != 0 && !s.someBad {
		return
	}
	for r, k := range valuesOf(span, x.rows) {
		if k >= 0 && (span.Dict != 0 && s.bad[k] || span.Dict == 0 && !x.isSound(s, span.Values, k)) {
			x.odd[r] = true
		}
	}
}

// isSound reports whether a value is not faulty.
func (x *Survey) isSound(s *surveyed, v *table.Values, k int) bool {
	if x.load(s.column, v, k) != nil {
		return false
	}
	for _, i := range s.ids {
		keys := &x.coder.keys[i]
		keys.Values = keys.Values[:0]
		if x.coder.appendKeys(i, keys) != nil {
			return false
		}
	}
	return true
}

// load sets the value of a column in the parser to value k; a negative k means no value.
func (x *Survey) load(column int, v *table.Values, k int) *record.Flaw {
	l := &x.parser.lists[column]
	l.Reset()
	if k >= 0 {
		switch l.Begin(v.Kind()); l.Kind {
		case value.Text:
			l.Texts = append(l.Texts, v.Text(k))
		case value.Int:
			l.Ints = append(l.Ints, v.Int(k))
		default:
			l.Reals = append(l.Reals, v.Real(k))
		}
	}
	return x.parser.parseColumn(column)
}

// Row reports whether row i has no fault. Then Positive, Labels and Text are of this row. Otherwise
// Check decides.
func (x *Survey) Row(i int) bool {
	if x.odd[i] {
		return false
	}
	for c := range x.columns {
		if s := &x.columns[c]; s.single && x.load(c, x.spans[c].Values, int(s.at[i])) != nil {
			return false
		}
	}
	return x.parser.parseLabel() == nil && x.parser.checkTargets() == nil
}

// Take makes the Watch look at row i and, if it is kept, adds it to the Fit: at the end of the loaded
// rows or of the row group.
func (x *Survey) Take(i int, keep bool) { x.taken[i], x.kept[i] = true, keep }

// End ends the loaded rows.
func (x *Survey) End() error {
	if len(x.watch.without) > 0 {
		x.watch.without = slices.DeleteFunc(x.watch.without, x.hasValue)
	}
	all := !slices.Contains(x.kept[:x.rows], false)
	for i := range x.columns {
		s := &x.columns[i]
		if span := &x.spans[i]; s.fit != nil && !s.fit.learnsNothing(span.Values.Kind()) {
			if err := x.count(s, span, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasValue reports whether a taken row has a value of a column.
func (x *Survey) hasValue(column int) bool {
	span := &x.spans[column]
	for r, k := range valuesOf(span, x.rows) {
		if k >= 0 && x.taken[r] && x.load(column, span.Values, k) == nil && !x.parser.absent[column] {
			return true
		}
	}
	return false
}

// count adds the kept rows, all of them or some, to the statistics of a column.
func (x *Survey) count(s *surveyed, span *table.Span, all bool) error {
	counted := span.Dict != 0 && span.Values.Len() <= table.MaxEntries
	if counted {
		if s.dict = span.Values; len(s.counts) < s.dict.Len() {
			s.counts = append(s.counts, make([]int32, s.dict.Len()-len(s.counts))...)
		}
		if all {
			for _, k := range span.Index {
				s.counts[k]++
			}
			s.missing += int64(x.rows - len(span.Index))
			return nil
		}
	}
	for r, k := range valuesOf(span, x.rows) {
		switch {
		case !x.kept[r]:
		case k < 0:
			s.missing++
		case counted:
			s.counts[k]++
		default:
			if err := x.addValue(s, span.Values, k, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// addValue adds n rows with a value to the statistics of a column.
func (x *Survey) addValue(s *surveyed, v *table.Values, k int, n int64) error {
	if x.load(s.column, v, k) != nil {
		return nil // a row that is not kept
	}
	return s.fit.add(x.parser, n)
}

// Finish ends the row group.
func (x *Survey) Finish() error {
	for i := range x.columns {
		s := &x.columns[i]
		if s.missing > 0 {
			if err := x.addValue(s, nil, -1, s.missing); err != nil {
				return err
			}
			s.missing = 0
		}
		for k, n := range s.counts {
			if n > 0 {
				if err := x.addValue(s, s.dict, k, int64(n)); err != nil {
					return err
				}
				s.counts[k] = 0
			}
		}
	}
	return nil
}
