package record

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// svmFormat is LibSVM and LibFFM (Chang and Lin 2011; Juan et al. 2016):
//
//	[label] [qid:n] index:value … [# comment]         libsvm
//	[label] field:index:value … [# comment]           libffm
//
// A first word with a colon is no label: the record has none.
// The fields of a LibSVM record are label, qid, features (the list of indices), values
// (the list of their values) and, by its number, the value of any index. The fields of a
// LibFFM record are label and, for each field, its number (the list of indices) and the
// number with the suffix _values. A label +1 is the string 1.
type svmFormat struct {
	fields     bool
	partitions *[]string // fields that folders give to records; nil: none
}

// ValuesSuffix is the suffix of the names of the values of LibFFM's fields.
const ValuesSuffix = "_values"

// svmOf returns f, or the format of a topic's records, as LibSVM or LibFFM.
func svmOf(f Format) (svmFormat, bool) {
	if topic, ok := f.(topicFormat); ok {
		f = topic.Format
	}
	svm, ok := f.(svmFormat)
	return svm, ok
}

func (svmFormat) Look(*File, Content) ([]string, error) { return nil, nil }

func (svmFormat) Place(f *File, offset int64) (Fault, error) { return linePlace(f, offset) }

func (svmFormat) Records([]string) Records {
	return &textRecords{isRecord: func(line []byte) bool {
		line = bytes.TrimLeft(line, " \t")
		return len(line) > 0 && line[0] != '#' && line[0] != '\r'
	}}
}

func (s svmFormat) Decoder(_, names []string) (Decoder, error) {
	d := &svmDecoder{pairs: !s.fields, partitions: map[int]int{}, label: -1, qid: -1, features: -1, values: -1}
	d.of, d.valuesOf = map[uint64]int{}, map[uint64]int{}
	for i, name := range names {
		at := -1
		if s.partitions != nil {
			at = slices.Index(*s.partitions, name)
		}
		switch {
		case at >= 0:
			d.partitions[at] = i
			continue
		case name == "label":
			d.label = i
			continue
		case name == "qid" && d.pairs:
			d.qid = i
			continue
		case name == "features" && d.pairs:
			d.features = i
			continue
		case name == "values" && d.pairs:
			d.values = i
			continue
		}
		number, ofValues := bytes.CutSuffix([]byte(name), []byte(ValuesSuffix))
		n, err := strconv.ParseUint(string(number), 10, 64)
		switch {
		case err != nil || ofValues && d.pairs:
			return nil, fmt.Errorf("schema: there is no field %q; %s", name, d.has())
		case ofValues:
			d.valuesOf[n] = i
		default:
			d.of[n] = i
		}
	}
	return d, nil
}

// svmDecoder parses lines of LibSVM and LibFFM. Fields that are not needed are −1.
type svmDecoder struct {
	pairs                        bool // index:value, not field:index:value
	label, qid, features, values int
	of, valuesOf                 map[uint64]int // by index, or by field
	partitions                   map[int]int
}

func (d *svmDecoder) has() string {
	if d.pairs {
		return "a LibSVM record has label, qid, features, values and each index by its number"
	}
	return "a LibFFM record has label, each field by its number and NUMBER_values"
}

func (d *svmDecoder) Decode(line []byte, lists []value.List) *Flaw {
	for i := range lists {
		lists[i].Reset()
	}
	if i := bytes.LastIndexByte(line, svmTail); i >= 0 && len(d.partitions) > 0 {
		d.carried(line[i+1:], lists)
		line = line[:i]
	}
	if i := bytes.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	if word, rest := nextWord(line); bytes.IndexByte(word, ':') < 0 {
		line = rest
		if d.label >= 0 {
			if len(word) > 1 && word[0] == '+' {
				word = word[1:]
			}
			lists[d.label].SetText(word)
		}
	}
	var word []byte
	for {
		if word, line = nextWord(line); len(word) == 0 {
			return nil
		}
		var fl *Flaw
		if d.pairs {
			fl = d.pair(word, lists)
		} else {
			fl = d.triple(word, lists)
		}
		if fl != nil {
			return fl
		}
	}
}

// carried sets the partitions of a record.
func (d *svmDecoder) carried(tail []byte, lists []value.List) {
	for i := 0; len(tail) > 0 && tail[0] == svmNext; i++ {
		end := len(tail)
		if n := bytes.IndexByte(tail[1:], svmNext); n >= 0 {
			end = n + 1
		}
		if at, ok := d.partitions[i]; ok && end > 1 {
			lists[at].SetText(tail[1:end])
		}
		tail = tail[end:]
	}
}

// nextWord splits the next word off a line.
func nextWord(line []byte) (word, rest []byte) {
	for len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		line = line[1:]
	}
	n := 0
	for n < len(line) && line[n] != ' ' && line[n] != '\t' {
		n++
	}
	return line[:n], line[n:]
}

// pair parses index:value.
func (d *svmDecoder) pair(word []byte, lists []value.List) *Flaw {
	left, right, ok := bytes.Cut(word, []byte{':'})
	if !ok {
		return badWord(word, "is not index:value")
	}
	if string(left) == "qid" {
		if d.qid >= 0 {
			lists[d.qid].SetText(right)
		}
		return nil
	}
	index, ok := value.ParseID(left)
	if !ok || left[0] == '-' {
		return badWord(word, "is not index:value: the index is not an integer")
	}
	x, why := value.ParseNumber(right)
	if why != "" {
		return badWord(word, "is not index:value: the value "+why)
	}
	add(lists, d.features, d.values, index, x)
	if len(d.of) > 0 {
		if i, ok := d.of[index]; ok {
			l := &lists[i]
			l.Begin(value.Text)
			l.Texts = append(l.Texts, right)
		}
	}
	return nil
}

// triple parses field:index:value.
func (d *svmDecoder) triple(word []byte, lists []value.List) *Flaw {
	const what = "is not field:index:value"
	left, rest, ok := bytes.Cut(word, []byte{':'})
	middle, right, also := bytes.Cut(rest, []byte{':'})
	if !ok || !also {
		return badWord(word, what)
	}
	field, ok := value.ParseID(left)
	index, also := value.ParseID(middle)
	if !ok || !also || left[0] == '-' {
		return badWord(word, what+": field and index must be integers")
	}
	x, why := value.ParseNumber(right)
	if why != "" {
		return badWord(word, what+": the value "+why)
	}
	i, ok := d.of[field]
	if !ok {
		i = -1
	}
	j, ok := d.valuesOf[field]
	if !ok {
		j = -1
	}
	add(lists, i, j, index, x)
	return nil
}

// add appends an index and its value to the lists that are needed.
func add(lists []value.List, indices, values int, index uint64, x float64) {
	if indices >= 0 {
		l := &lists[indices]
		l.Begin(value.Int)
		l.Ints = append(l.Ints, int64(index))
	}
	if values >= 0 {
		l := &lists[values]
		l.Begin(value.Float64)
		l.Reals = append(l.Reals, x)
	}
}

func badWord(word []byte, want string) *Flaw {
	return &Flaw{Field: -1, Want: fmt.Sprintf("%q %s", CutLong(word), want)}
}

// eachNumber calls f with each word after the label of a line of LibSVM or LibFFM, and the
// number at its beginning.
func eachNumber(line []byte, f func(n uint64, word []byte)) {
	line, _, _ = bytes.Cut(line, []byte{'#'})
	label := true
	for word := range bytes.FieldsSeq(line) {
		if label {
			if label = false; bytes.IndexByte(word, ':') < 0 {
				continue
			}
		}
		number, _, _ := bytes.Cut(word, []byte{':'})
		if n, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			f(n, word)
		}
	}
}

// NumbersIn returns the label and the numbers at the beginning of words in some records:
// indices of LibSVM or fields of LibFFM. ones reports that every value is 1.
func NumbersIn(form Format, s *Sample) (names []string, ones bool, err error) {
	seen := map[uint64]bool{}
	ones = true
	err = s.Units(form.Records(nil), func(_ int, u Unit) error {
		if u.Flaw != nil {
			return nil
		}
		eachNumber(u.Record, func(n uint64, word []byte) {
			seen[n] = true
			ones = ones && bytes.HasSuffix(word, []byte(":1"))
		})
		return nil
	})
	numbers := make([]uint64, 0, len(seen))
	for n := range seen {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	names = []string{"label"}
	for _, n := range numbers {
		names = append(names, strconv.FormatUint(n, 10))
	}
	return names, ones, err
}

// The bytes that separate the partitions of a record of LibSVM. A value has no control character.
const (
	svmTail = '\x1d'
	svmNext = '\x1f'
)
