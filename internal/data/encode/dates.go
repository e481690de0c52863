package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// dateCode encodes dates as keys and ages.
type dateCode struct {
	format    date.Format
	clock     date.Clock
	reference int64 // ages are relative to this date
}

// newDateCode compiles a feature. format is the format found in the training data; it
// applies if the feature names none.
func newDateCode(f *schema.Feature, format string, newest int64) (*dateCode, error) {
	zone, err := date.Zone(f.Zone)
	if err != nil {
		return nil, err
	}
	c := &dateCode{clock: date.NewClock(zone), reference: newest}
	if f.Format != "" {
		format = f.Format
	}
	if format != "" { // otherwise no record had a date
		if c.format, err = date.NewFormat(format); err != nil {
			return nil, err
		}
	}
	if f.Reference != "" {
		c.reference, _ = date.NewISO().Seconds([]byte(f.Reference))
	}
	return c, nil
}

// dateKey returns the key of a date, or KeyMissing if text is not a date.
func (f *featureCode) dateKey(text []byte) uint64 {
	if f.dates == nil {
		return KeyMissing // in a coder that only checks
	}
	s, ok := f.dates.format.Seconds(text)
	if !ok {
		return KeyMissing
	}
	switch f.encoding {
	case schema.Hour:
		return uint64(f.dates.clock.Hour(s))
	case schema.Weekday:
		return uint64(f.dates.clock.Weekday(s))
	}
	return uint64(f.dates.clock.Month(s))
}

// age returns the standardised age of a date; 0, the mean, if text is not a date.
func (f *featureCode) age(text []byte) float32 {
	if f.dates == nil {
		return 0
	}
	s, ok := f.dates.format.Seconds(text)
	if !ok {
		return 0
	}
	return f.scaled(date.Days(s, f.dates.reference))
}

// notDate describes a value that is not a date in this format.
func (c *dateCode) notDate() string {
	if name := c.format.String(); name != "" {
		return "is not a date in the format " + name + ", which the model reads; if it means missing, list it in data.missing"
	}
	return "is not used: the training data had no date in this field, so the model reads none; leave it out"
}

// datesKey identifies a column of dates: by field and, if it is set, format.
type datesKey struct{ field, format string }

// fitDates gathers the dates of a column.
type fitDates struct {
	column int
	datesKey
	*dateStats
}

// dateStats gathers the dates of a column, in all possible formats.
type dateStats struct {
	tally   *date.Tally
	newest  []int64   // by format
	seconds []*sketch // by format; nil if there are no dates, or no ages are needed
	ages    bool      // seconds are needed
	read    []string  // by format, the least value that it accepts
	unread  string    // the least value that no format accepts
}

const maxUnread = 64 // bytes kept of a value

func newDateStats(format string) *dateStats {
	t, err := date.NewTally(format)
	if err != nil {
		panic(err) // the schema is valid
	}
	s := &dateStats{tally: t, newest: make([]int64, len(t.Read)), seconds: make([]*sketch, len(t.Read)), read: make([]string, len(t.Read))}
	for i := range s.newest {
		s.newest[i] = math.MinInt64
	}
	return s
}

func (s *dateStats) add(text []byte) {
	read := false
	s.tally.Add(text, func(i int, seconds int64) {
		read = true
		keepLeast(&s.read[i], text)
		s.newest[i] = max(s.newest[i], seconds)
		if s.ages {
			if s.seconds[i] == nil {
				s.seconds[i] = newSketch()
			}
			s.seconds[i].add(float64(seconds))
		}
	})
	if !read {
		keepLeast(&s.unread, text)
	}
}

// keepLeast keeps the least value. The result does not depend on the order.
func keepLeast(least *string, text []byte) {
	text = text[:min(len(text), maxUnread)]
	if *least == "" || string(text) < *least {
		*least = string(text)
	}
}

// fill fills the statistics of a feature.
func (s *dateStats) fill(f *schema.Feature, to *statistics) error {
	best, i, ok := s.tally.Best()
	if !ok {
		if s.tally.Values > 0 {
			advice := "set format"
			if all := date.Patterns(s.unread); len(all) > 0 {
				advice += fmt.Sprintf(" (it may be %q)", all)
			}
			return fmt.Errorf("feature %s: none of the %d values of field %s is a date, such as %q; %s, or another encoding", f.Name, s.tally.Values, f.Field, s.unread, advice)
		}
		return nil
	}
	to.Date, to.Newest = best.String(), s.newest[i]
	if s.seconds[i] == nil {
		return nil
	}
	c, err := newDateCode(f, to.Date, to.Newest)
	if err != nil {
		return err
	}
	to.Mean, to.Deviation = s.seconds[i].moments(func(x float64) float64 {
		x = date.Days(int64(x), c.reference)
		if f.Log {
			x = signedLog(x)
		}
		return x
	})
	return nil
}

func (s *dateStats) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.tally.Values))
	for i, n := range s.tally.Read {
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendVarint(b, s.newest[i])
		b = append(binary.AppendUvarint(b, uint64(len(s.read[i]))), s.read[i]...)
		if n > 0 && s.ages {
			b = s.seconds[i].append(b)
		}
	}
	return append(binary.AppendUvarint(b, uint64(len(s.unread))), s.unread...)
}

// merge adds encoded statistics.
func (s *dateStats) merge(r *wire.Reader) {
	values := r.Count()
	s.tally.Values += values
	for i := range s.tally.Read {
		n := r.Count()
		if n > values {
			r.Fail("%d of %d values are dates", n, values)
		}
		s.tally.Read[i] += n
		s.newest[i] = max(s.newest[i], r.Varint())
		if text := r.Bytes(maxUnread); len(text) > 0 {
			keepLeast(&s.read[i], text)
		}
		if n == 0 || !s.ages {
			continue
		}
		o := sketchFrom(r)
		if r.Err != nil {
			return
		}
		if s.seconds[i] == nil {
			s.seconds[i] = newSketch()
		}
		s.seconds[i].merge(o)
	}
	if text := r.Bytes(maxUnread); len(text) > 0 {
		keepLeast(&s.unread, text)
	}
}

// unlike returns a value that is not a date in a format, an example of what else the column
// contains. other is the format of that value, "" if it is no date.
func (s *dateStats) unlike(best int) (example, other string) {
	if s.unread != "" {
		if all := date.Patterns(s.unread); len(all) > 0 {
			other = all[0]
			for _, p := range all {
				if f, err := date.NewFormat(p); err == nil && reads(f, s.read[best]) {
					other = p
				}
			}
		}
		return s.unread, other
	}
	for i, text := range s.read {
		if text != "" && !reads(s.tally.Format(best), text) {
			return text, s.tally.Format(i).String()
		}
	}
	return "", ""
}

func reads(f date.Format, text string) bool {
	_, ok := f.Seconds([]byte(text))
	return ok
}

// Dates describes how the dates of one field were read.
type Dates struct {
	Field   string `json:"field"`
	Format  string `json:"format"`
	Values  int64  `json:"values"`
	Unread  int64  `json:"unread"`            // values that are not dates, and count as missing
	Example string `json:"example,omitempty"` // one of them
	Other   string `json:"other,omitempty"`   // the format of Example, if it is a date
	Mixed   bool   `json:"mixed,omitempty"`   // Other cannot read what Format reads
}

// Dates describes the columns of dates.
func (f *Fit) Dates() (all []Dates) {
	for _, d := range f.dates {
		if best, i, ok := d.tally.Best(); ok {
			x := Dates{Field: d.field, Format: best.String(), Values: d.tally.Values, Unread: d.tally.Values - d.tally.Read[i]}
			if x.Unread > 0 {
				example, other := d.unlike(i)
				x.Example, x.Other = string(record.CutLong([]byte(example))), other
				f, err := date.NewFormat(other)
				x.Mixed = err == nil && !reads(f, d.read[i])
			}
			all = append(all, x)
		} else if d.tally.Values > 0 {
			example := record.CutLong([]byte(d.unread))
			all = append(all, Dates{Field: d.field, Values: d.tally.Values, Unread: d.tally.Values, Example: string(example)})
		}
	}
	return all
}

// Undated describes the columns of dates that have values that are none.
func (f *Fit) Undated() []Dates {
	return slices.DeleteFunc(f.Dates(), func(d Dates) bool { return d.Unread == 0 })
}

// NewDates returns a Fit that gathers the dates of records by a schema, in the formats that the
// features of e read. It returns nil if e reads none.
func (e *Encoder) NewDates(s schema.Schema) *Fit {
	s = s.Fill()
	s.Features = slices.Clone(s.Features)
	read := map[datesKey]bool{}
	for i := range s.Features {
		f := &s.Features[i]
		k := slices.IndexFunc(e.schema.Features, func(x schema.Feature) bool { return x.Name == f.Name })
		if k < 0 || e.stats[k].dates == nil {
			continue
		}
		if f.Format == "" {
			f.Format = e.stats[k].Date
		}
		if f.Format != "" { // otherwise the training had no date
			read[datesKey{f.Field, f.Format}] = true
		}
	}
	if len(read) == 0 {
		return nil
	}
	all := NewFit(s)
	f := &Fit{schema: s, digest: all.digest}
	for _, d := range all.dates {
		if read[d.datesKey] {
			d.ages = false
			f.dates = append(f.dates, d)
		}
	}
	f.group(len(s.Columns()))
	return f
}

// addDates adds the values of a column.
func (s *dateStats) addDates(p *parser, l *value.List) {
	for i := range l.Len() {
		if text := p.textOf(l, i); len(text) > 0 {
			s.add(text)
		}
	}
}
