package config

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/data/inspect"
	"github.com/wdlrun/wdlrun/data/kafka"
	"github.com/wdlrun/wdlrun/data/schema"
)

// Look is what someone saw in some records of files.
type Look struct {
	Path      string
	More      []string // what else was given
	Names     []string // of the files that were looked at, if these are several
	Files     int      // that they name; of a topic, partitions
	All       bool     // every row was looked at
	Format    string   // of the file; empty: csv or tsv, by the delimiter
	Delimiter string   // empty: comma
	Header    bool     // the first line names the columns
	Comment   string   // mark of lines that are no records, empty if there are none
	Columns   []LookColumn
	Unread    []string // fields that cannot be read, and why
	Rows      int      // looked at
	Label     string   // column; empty: not found
	Positive  []string // values of Label that are 1; empty: not known
	Missing   []string // values that mean missing, besides the empty one
}

// LookColumn is one column of a Look.
type LookColumn struct {
	Name     string
	Kind     string   // int, float or string
	Distinct int      // different values; those between separators, if there are
	Missing  float64  // share of rows without a value
	Examples []string // some of its values
	// Separator is the mark between several values of one field, empty if
	// there is one value each.
	Separator string
	Many      bool // rows hold lists of values
}

const (
	mostHours        = 53   // of what comes round: weeks of a year
	fewValues        = 20   // of integers: categories rather than amounts
	vocabularyValues = 1000 // of strings: more are hashed, they grow with the file
)

// Suggest writes a commented configuration for a file that has at least one
// column besides the label. Parse accepts it; what it could not know is marked
// CHECK.
func Suggest(l Look) []byte {
	s := &suggestion{Look: l, taken: map[string]bool{}}
	s.columns()
	s.pickLabel()
	s.dataSection()
	s.labelSection()
	s.featureSection()
	s.rest()
	return []byte(s.out.String())
}

// Where says in words what was looked at, with paths as text writes them.
func (l *Look) Where(text func(string) string) string {
	rows := count(l.Rows, "row")
	if l.All && l.Rows > 1 {
		rows = "all " + rows
	}
	if l.Files < 2 {
		return rows + " of " + text(l.Path)
	}
	kind := "files"
	if strings.HasPrefix(l.Path, kafka.Scheme) {
		kind = "partitions"
	}
	which := fmt.Sprintf("the %d %s", l.Files, kind)
	if n := len(l.Names); n < l.Files {
		which = fmt.Sprintf("%d of the %d %s", n, l.Files, kind)
	}
	const few = 3 // that a line names
	switch n := len(l.More); {
	case n == 0:
		return rows + " of " + which + " of " + text(l.Path)
	case n < few:
		for _, p := range append([]string{l.Path}, l.More...) {
			which += ", " + text(p)
		}
		return rows + " of " + strings.Replace(which, ",", "", 1)
	default:
		return rows + " of " + which + " " + text(l.Path) + " … " + text(l.More[n-1])
	}
}

// Learnable tells whether any column beside the label has values.
func Learnable(l Look) bool {
	s := &suggestion{Look: l, taken: map[string]bool{}}
	s.columns()
	s.pickLabel()
	for i, c := range l.Columns {
		if i != s.label && s.names[i] != "" && c.Distinct > 0 {
			return true
		}
	}
	return false
}

// suggestion is a Look on its way to a file.
type suggestion struct {
	Look
	out   strings.Builder
	names []string        // of the columns, as the file will call them; "" where it cannot
	why   []string        // why not
	label int             // index of the label's column, -1 for none
	sure  bool            // that it is the label
	taken map[string]bool // names of features
}

func (s *suggestion) line(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// columns decides how columns are called: names that cannot be used are
// replaced where the configuration may choose (no header), else given up.
func (s *suggestion) columns() {
	taken := map[string]bool{}
	for i, c := range s.Columns {
		name, why := c.Name, unusable(c.Name)
		if why == "" && taken[name] {
			why = "another column has that name"
		}
		for n := i + 1; why != "" && !s.Header; n++ {
			if name = fmt.Sprintf("column_%d", n); !taken[name] {
				why = ""
			}
		}
		if why != "" {
			name = ""
		}
		taken[name] = true
		s.names, s.why = append(s.names, name), append(s.why, why)
	}
}

// unusable says why a name cannot stand in a configuration.
func unusable(name string) string {
	switch {
	case name == "":
		return "the column has no name"
	case !utf8.ValidString(name):
		return "its name is not UTF-8"
	case len(name) > 200:
		return "its name has more than 200 bytes"
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return "its name has control characters"
	}
	return ""
}

// pickLabel finds the label: the one that was seen, else the last column of two
// values, else the last one. Only a name makes it sure.
func (s *suggestion) pickLabel() {
	s.label = -1
	for i, name := range s.names {
		if name != "" && s.Label != "" && s.Columns[i].Name == s.Label {
			s.label, s.sure = i, inspect.IsLabelName(name)
			return
		}
	}
	binary := func(i int) bool { return s.Columns[i].Distinct == 2 && s.Columns[i].Separator == "" }
	for i, name := range s.names {
		if name != "" && (s.label < 0 || binary(i) || !binary(s.label)) {
			s.label = i
		}
	}
}

func (s *suggestion) dataSection() {
	s.line("# Written after a look at %s.", s.Where(text))
	if !s.All {
		s.line("# It is a sample, up to half of it the beginning%s: what is rare may be missing below.", map[bool]string{true: " of the first file"}[s.Files > 1])
	}
	s.line("# Read it through, then: wdlrun train -config THIS_FILE")
	s.line("# Every key is explained by: wdlrun help config")
	s.line("")
	s.line("data:")
	if len(s.More) == 0 {
		s.line("  train: [%s]", text(s.Path))
	} else {
		s.line("  train:")
		for _, p := range append([]string{s.Path}, s.More...) {
			s.line("    - %s", text(p))
		}
	}
	s.line("  # test: [FILE]            # evaluated once after training")
	s.line("  valid_fraction: 0.1       # held out of train to watch the training")
	if strings.HasPrefix(s.Path, kafka.Scheme) {
		s.line("  # A topic is read as far as it goes now. To go on with what comes, instead of")
		s.line("  # valid_fraction and train.epochs (early_stop then needs data.valid):")
		s.line("  # follow: {on: true}")
		s.line("  # index: ctr.index        # of vocabularies, made by wdlrun data index")
	}
	if !(schema.Source{Format: s.Format}).HasLayout() {
		s.line("  format: %s", s.Format)
		return
	}
	switch s.Delimiter {
	case "", ",":
	case "\t":
		s.line("  format: tsv")
	default:
		s.line("  delimiter: %s", text(s.Delimiter))
	}
	if s.Header {
		s.line("  header: true")
	} else {
		s.line("  # The file has no header; better names make a better report.")
		s.line("  fields: %s", list(s.names))
	}
	if s.Comment != "" && !strings.ContainsAny(s.Comment, "\r\n") {
		s.line("  comment: %s", text(strings.ToValidUTF8(s.Comment, "?")))
	}
	if len(s.Missing) > 0 {
		s.line("  missing: %s            # besides empty values", list(s.Missing))
	}
}

func (s *suggestion) labelSection() {
	s.line("\nlabel:")
	if s.label < 0 {
		s.line("  field: CHECK              # no column can be the label")
		return
	}
	c := s.Columns[s.label]
	mark := ""
	if !s.sure {
		mark = "   # CHECK: no name says which column is the label; this is a guess"
	}
	s.line("  field: %s%s", text(s.names[s.label]), mark)
	positive, sure := s.Positive, true
	if len(positive) == 0 {
		positive, sure = guessPositive(c)
	}
	sure = sure && !counted(c)
	switch {
	case sure:
		s.line("  positive: %s", list(positive))
	case c.Kind != "string" && c.Distinct > 2:
		s.line("  threshold: %-14s # CHECK: %s; from this number on a sample is positive", number(threshold(c)), seen(c))
		return
	default:
		s.line("  positive: %s   # CHECK: which value is the 1?", list(positive))
	}
	if other := otherOfTwo(c, positive); other != "" {
		s.line("  negative: %-15s # any other value is an error; without this line it is 0", list([]string{other}))
		return
	}
	s.line("  # Without a list of negative values every other value is 0.")
}

// otherOfTwo is the value of a column of two that is not the positive one, "" if the
// column has more, or one that a configuration had better not say.
func otherOfTwo(c LookColumn, positive []string) string {
	if c.Distinct != 2 || len(c.Examples) != 2 || len(positive) != 1 {
		return ""
	}
	one := slices.Index(c.Examples, positive[0])
	if one < 0 || unusable(c.Examples[0]) != "" || unusable(c.Examples[1]) != "" {
		return ""
	}
	return c.Examples[1-one]
}

// counted tells of values such as 1 and 2, which are numbers of classes: there a 1 is
// no yes as it is beside 0 or −1.
func counted(c LookColumn) bool {
	for _, e := range c.Examples {
		if x, err := strconv.ParseFloat(e, 64); err != nil || x <= 0 {
			return false
		}
	}
	return c.Kind != "string" && len(c.Examples) > 1
}

// threshold is four fifths of the largest rating seen, such as 4 stars of 5,
// and 1 of other numbers.
func threshold(c LookColumn) float64 {
	if !inspect.IsRatingName(c.Name) {
		return 1
	}
	most := 0.0
	for _, e := range c.Examples {
		if x, err := strconv.ParseFloat(e, 64); err == nil && !math.IsInf(x, 0) {
			most = max(most, x)
		}
	}
	if most == 0 {
		return 1
	}
	return math.Round(80*most) / 100
}

// guessPositive picks the value that means yes; sure says whether it is one of
// the usual words for it.
func guessPositive(c LookColumn) (values []string, sure bool) {
	examples := append([]string(nil), c.Examples...)
	sort.Strings(examples)
	for _, e := range examples {
		switch strings.ToLower(strings.TrimSpace(e)) {
		case "1", "true", "t", "yes", "y", "pos", "positive", "click", "clicked":
			return []string{e}, c.Distinct <= 2
		}
	}
	for i := len(examples) - 1; i >= 0; i-- {
		if examples[i] != "" && utf8.ValidString(examples[i]) {
			return examples[i : i+1], false
		}
	}
	return []string{"1"}, false
}

func (s *suggestion) featureSection() {
	s.line("\nfeatures:")
	written := 0
	for i, c := range s.Columns {
		if i == s.label {
			continue
		}
		entries, why := s.entries(i)
		for _, e := range entries {
			s.line("  - %s   # %s%s", e, s.commas(c), seen(c))
			written++
		}
		if len(entries) == 0 {
			s.line("  # - {field: %s, encode: hash}   # left out: %s; %s", text(c.Name), why, seen(c))
		}
	}
	for _, field := range s.Unread {
		s.line("  # not read: %s", field)
	}
	for i := range s.Columns {
		if written == 0 && i != s.label && s.names[i] != "" && s.Columns[i].Distinct > 0 {
			s.line("  - {field: %s, encode: hash}   # CHECK: nothing better was found", text(s.names[i]))
			written++
		}
	}
}

// entries are the features made of one column, or the reason for none.
func (s *suggestion) entries(i int) (entries []string, why string) {
	c, name := s.Columns[i], s.names[i]
	if name == "" {
		return nil, s.why[i]
	}
	one := func(encode string) []string { return []string{s.entry(name, encode, "")} }
	amount := func() []string { return append(one("quantile"), one("standardise")...) }
	const enough = 50 // values from which it means something that all differ
	present := float64(s.Rows) * (1 - c.Missing)
	every := present >= enough && float64(c.Distinct) >= 0.95*present
	if s.Format == "libffm" {
		if entries, why, ok := s.ofIndices(name, c, every); ok {
			return entries, why
		}
	}
	switch {
	case c.Distinct == 0:
		return nil, "it has no value at all"
	case c.Distinct == 1 && c.Missing == 0:
		return nil, "it has one value only"
	case c.Many && c.Kind == "float":
		return nil, "lists of numbers; they may be the weights of another field"
	case c.Many && c.Kind == "int":
		return []string{s.weighted(name, s.weights(name))}, ""
	case c.Separator != "" && utf8.ValidString(c.Separator) && c.Kind == "string":
		encode := "hash"
		if c.Distinct <= vocabularyValues {
			encode = "vocabulary"
		}
		return []string{s.entry(name, encode, c.Separator)}, ""
	case c.Kind == "float" && !inspect.IsIDName(c.Name):
		return amount(), ""
	case every && (c.Kind == "string" || inspect.IsIDName(c.Name) || c.Distinct >= s.Rows):
		return nil, "nearly every row has its own value: nothing can be learnt about new ones"
	case c.Kind == "int" && c.Distinct > fewValues && !inspect.IsIDName(c.Name) && !(inspect.IsHourName(c.Name) && c.Distinct <= mostHours):
		return amount(), ""
	case c.Distinct <= vocabularyValues && 2*c.Distinct <= max(s.Rows, 2*fewValues):
		return one("vocabulary"), ""
	}
	return one("hash"), ""
}

// ofIndices is what to make of a field of LibFFM: indices are no amounts. Those that
// are always the same stand before a number, which their values then are.
func (s *suggestion) ofIndices(name string, c LookColumn, every bool) (entries []string, why string, ok bool) {
	if field, isValues := strings.CutSuffix(name, "_values"); isValues {
		if i := s.column(field); i >= 0 && s.Columns[i].Distinct > 1 {
			return nil, "the weights of field " + field, true
		}
		return nil, "", false
	}
	values := ""
	if i := s.column(name + "_values"); i >= 0 {
		values = s.Columns[i].Name
	}
	switch {
	case c.Distinct == 1 && values != "":
		return nil, "its index is always the same; " + values + " is its number", true
	case c.Distinct == 1 && c.Missing == 0:
		return nil, "", false
	case every && !c.Many:
		return nil, "nearly every row has an index of its own: nothing can be learnt about new ones", true
	}
	return []string{s.weighted(name, values)}, "", true
}

// column is the place of a column, −1 if there is none.
func (s *suggestion) column(name string) int {
	return slices.IndexFunc(s.Columns, func(c LookColumn) bool { return c.Name == name })
}

// weighted is the entry of indices with weights, "" for none.
func (s *suggestion) weighted(name, weights string) string {
	e := s.entry(name, "id", "")
	if weights != "" {
		e = strings.TrimSuffix(e, "}") + ", weights: " + text(weights) + "}"
	}
	return e
}

// weights is the field of the values of LibSVM's indices, unless it holds ones alone.
func (s *suggestion) weights(indices string) string {
	for _, c := range s.Columns {
		if s.Format == "libsvm" && indices == "features" && c.Name == "values" && c.Distinct > 1 {
			return c.Name
		}
	}
	return ""
}

// entry writes a feature, with a name of its own only where the one it would get
// belongs to another.
func (s *suggestion) entry(field, encode, separator string) string {
	how := ", encode: " + encode
	if separator != "" {
		how += ", separator: " + text(separator)
	}
	for _, name := range []string{field, field + "_" + encode} {
		if !s.taken[name] {
			s.taken[name] = true
			return "{field: " + text(field) + how + "}"
		}
	}
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s_%s_%d", field, encode, n)
		if !s.taken[name] && !among(name, s.names) {
			s.taken[name] = true
			return "{name: " + text(name) + ", field: " + text(field) + how + "}"
		}
	}
}

func (s *suggestion) rest() {
	s.out.WriteString(`
# Combinations of sparse features for the wide part, by hand or by trial:
# crosses:
#   - {of: [A, B], buckets: 100000}

model:
  embedding_dim: 8
  hidden: [128, 64]

train:
  epochs: 10                # early stopping ends it when the held-out rows no longer improve
  global_batch: 256         # samples of all ranks per step; thousands for millions of rows
  seed: 1
  early_stop: {patience: 2}
`)
}

// commas is what to say of texts that are numbers with a comma in place of the point.
// Where a comma parts the fields too, no short command tells one from the other.
func (s *suggestion) commas(c LookColumn) string {
	for _, e := range c.Examples {
		whole, part, two := strings.Cut(e, ",")
		if _, err := strconv.ParseFloat(whole+"."+part, 64); err != nil || !two || part == "" {
			return ""
		}
	}
	if c.Kind != "string" || len(c.Examples) == 0 {
		return ""
	}
	with := ""
	if (schema.Source{Format: s.Format}).HasLayout() && s.Delimiter != "" && s.Delimiter != "," {
		with = ` (sed -E 's/([0-9]),([0-9])/\1.\2/g' FILE > NEW), then init -data NEW`
	}
	return "CHECK: numbers with a comma are texts here; write them with a point" + with + "; "
}

// seen describes a column in a comment.
func seen(c LookColumn) string {
	kind := map[string]string{"int": "integers", "float": "numbers"}[c.Kind]
	if kind == "" {
		kind = "texts"
	}
	note := fmt.Sprintf("%s, %d different", kind, c.Distinct)
	switch all := c.Missing >= 0.9995; {
	case all && c.Missing < 1:
		note += ", nearly all missing"
	case c.Missing > 0:
		note += fmt.Sprintf(", %.3g %% missing", 100*c.Missing)
	}
	const shown = 3
	for i, e := range c.Examples {
		if i == shown {
			break
		}
		if i == 0 {
			note += ", such as"
		}
		note += " " + quote(strings.ToValidUTF8(e, "?"))
	}
	return note
}

// list writes texts as a YAML list.
func list(values []string) string {
	quoted := make([]string, 0, len(values))
	for _, v := range values {
		quoted = append(quoted, text(strings.ToValidUTF8(v, "?")))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
