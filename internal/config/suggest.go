package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Suggest returns a commented configuration for a file that has at least one column besides
// the label. Parse accepts it. Guesses are marked CHECK. If index is not empty, the files are
// followed as they grow, with this feature index.
func Suggest(in *inspect.Inspection, index string) []byte {
	return SuggestWith(in, index, new(Crosses))
}

// SuggestWith is Suggest with crosses that may be known. It sets crosses.Found if it is nil.
func SuggestWith(in *inspect.Inspection, index string, crosses *Crosses) []byte {
	s := &suggestion{Inspection: *in, index: index, taken: map[string]bool{}, crosses: crosses}
	s.columns()
	s.pickLabel()
	s.pickWeight()
	s.dataSection()
	s.labelSection()
	s.featureSection()
	s.crossSection()
	s.rest()
	b := []byte(s.out.String())
	if Marked(b) == 0 {
		b = bytes.Replace(b, []byte(checkFirst), []byte(readFirst), 1)
	}
	return b
}

// The second line of a suggestion: with and without a line marked CHECK.
const (
	checkFirst = "# Check every line marked CHECK, then run: wdlrun data check -config THIS_FILE"
	readFirst  = "# Read it, then run: wdlrun data check -config THIS_FILE"
)

// Marked returns the number of lines of a suggestion that are marked CHECK.
func Marked(suggestion []byte) int { return bytes.Count(suggestion, []byte("# CHECK: ")) }

// Learnable reports whether any column other than the label differs between records.
func Learnable(in *inspect.Inspection) bool {
	s := &suggestion{Inspection: *in, taken: map[string]bool{}}
	s.columns()
	s.pickLabel()
	s.pickWeight()
	for i, c := range in.Columns {
		if i != s.label && i != s.weight && s.names[i] != "" && (c.Distinct > 1 || c.Distinct == 1 && c.Missing > 0) {
			return true
		}
	}
	return false
}

// LookedAt describes the inspected files and rows. text formats paths.
func LookedAt(l *inspect.Inspection, text func(string) string) string {
	rows := plural.Of(l.Rows, "row")
	switch {
	case l.Ragged > 0:
		rows += fmt.Sprintf(" (%d more could not be read)", l.Ragged)
	case l.All && l.Rows > 1:
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
	const few = 3 // files named in a line
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

// columns chooses the names of columns. An unusable name is replaced if the file has no
// header; otherwise the column is left out.
func (s *suggestion) columns() {
	taken := map[string]bool{}
	for i, c := range s.Columns {
		name, why := c.Name, unusable(c.Name)
		if why == "" && taken[name] {
			why = "another column has that name"
		}
		for n := i + 1; why != "" && !s.Header && !c.Folder; n++ {
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

// sampled describes a sample.
func (s *suggestion) sampled() string {
	switch many := s.Files > 1; {
	case s.Packed && many:
		return "from the beginnings of files, which are compressed"
	case s.Packed:
		return "the first ones, because the file is compressed"
	case many:
		return "a sample, up to half of it from the beginning of the first file"
	}
	return "a sample, up to half of it from the beginning"
}

func (s *suggestion) dataSection() {
	s.line("# wdlrun init wrote this from %s.", LookedAt(&s.Inspection, text))
	if !s.All {
		s.line("# These rows are %s. Rare values may be missing below.", s.sampled())
	}
	s.line(checkFirst)
	s.line("# wdlrun help config explains every key.")
	for _, note := range s.Notes {
		s.line("# CHECK: %s", oneLine(note))
	}
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
	if s.index != "" {
		s.line("  # valid: [FILE]           # evaluated during training; early_stop needs it")
		s.line("  follow: {on: true}        # trains on new files or records as they arrive; with idle: 600, until none arrives for 600 s")
		s.line("  index: %-18s # vocabularies and statistics of the present data; write it with:", text(s.index))
		s.line("  #                           wdlrun data index -config THIS_FILE -out %s", text(s.index))
	} else {
		s.line("  valid_fraction: 0.1       # held out of train for validation")
		s.validTime()
		if strings.HasPrefix(s.Path, kafka.Scheme) {
			s.line("  # A topic is read to its current end: wdlrun init -follow writes a configuration for new records too")
		}
	}
	if !(schema.Source{Format: s.Format}).HasLayout() {
		s.line("  format: %s", s.Format)
		s.missing()
		return
	}
	switch {
	case s.Delimiter == "", s.Delimiter == ",":
	case s.Delimiter == "\t" && s.Format != "csv":
		s.line("  format: tsv")
	default:
		s.line("  delimiter: %s", text(s.Delimiter))
	}
	if s.Header {
		s.line("  header: true")
	} else {
		s.line("  # The file has no header. Replace these names by meaningful ones.")
		inFiles := len(s.names)
		for inFiles > 0 && s.Columns[inFiles-1].Folder {
			inFiles--
		}
		s.line("  fields: %s", list(s.names[:inFiles]))
	}
	if s.Comment != "" && !strings.ContainsAny(s.Comment, "\r\n") {
		s.line("  comment: %s", text(strings.ToValidUTF8(s.Comment, "?")))
	}
	switch s.Escape {
	case schema.EscapeQuoted:
		s.line("  escape: quoted            # a backslash escapes quotes in quoted fields")
	case schema.EscapeAll:
		s.line("  escape: all               # a backslash escapes any byte; \\N is missing")
	}
	if s.Multiline {
		s.line("  multiline: true           # fields hold line breaks")
	}
	s.missing()
}

func (s *suggestion) missing() {
	if len(s.Missing) > 0 {
		s.line("  missing: %s            # in addition to empty values", list(s.Missing))
	}
}

// validTime holds out the newest records of a log. If the records are not in the order of a
// date, the setting is only proposed in a comment: they may have been collected in another
// way.
func (s *suggestion) validTime() {
	offer := ""
	for i := range s.Columns {
		c := &s.Columns[i]
		readable := c.Dates.Hours && (c.Integers || c.Dates.Format != "") && s.names[i] != "" && i != s.label
		switch {
		case readable && c.Dates.Ordered:
			s.line("  valid_time: %-13s # holds out the newest records, because predictions are for newer ones", text(s.names[i]))
			return
		case readable && offer == "":
			offer = s.names[i]
		}
	}
	if offer != "" {
		s.line("  # valid_time: %-11s # use it if predictions are for newer records", text(offer))
	}
}

func (s *suggestion) rest() {
	s.out.WriteString(`
model:
  embedding_dim: 8
  hidden: [128, 64]
  dropout: 0.2

train:
`)
	if s.index == "" {
		s.line("  epochs: 50                # early stopping ends training when validation no longer improves")
	}
	s.out.WriteString(`  global_batch: 256         # samples of all ranks per step; 1024 is faster, and as good for millions of rows
  # eval_steps: 10000       # for many rows: evaluate more than once per epoch
  seed: 1
`)
	if s.index == "" && s.fewRows() {
		s.line("  l2: {deep: 0.001, mode: dense} # each step on every row, so that rare values stay small; lazy is faster for large tables")
	} else {
		s.line("  l2: {deep: 0.001}")
	}
	if s.index == "" {
		s.line("  early_stop: {patience: 4}")
		const most = 1_000_000
		if s.Records <= most {
			s.line("  refit: true               # then trains again on all rows, for the best number of epochs")
		} else {
			s.line("  # refit: true             # then trains again on all rows; about as long as the first training")
		}
	}
}

// fewRows reports whether every row of the tables can take a step in every step without much time: they
// are not many compared with the rows of a batch, nor are the steps.
func (s *suggestion) fewRows() bool {
	const records, rows = 300_000, 50_000
	n := 0
	for _, f := range s.features {
		if slices.Contains([]string{"vocabulary", "hash", "id"}, f.Encode) {
			n += s.Columns[f.Column].Distinct
		}
	}
	return s.Records <= records && n <= rows
}
