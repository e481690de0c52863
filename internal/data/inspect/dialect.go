package inspect

import (
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// sniffDialect decides what quotes and backslashes mean. A decision needs lines that have the
// usual number of fields only if they are read that way, or a field that no other dialect has.
func (in *Inspection) sniffDialect(all []string) {
	base := schema.Source{Format: in.Format, Delimiter: in.Delimiter}
	if in.Format == "tsv" && isQuoted(base, all) {
		in.Format = "csv"
		base.Format = in.Format
	}
	if !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, `\`) }) {
		return
	}
	with := func(escape string) int {
		s := base
		s.Escape = escape
		return fits(s, all)
	}
	none, every, quoted := with(""), with(schema.EscapeAll), 0
	if in.Format == "csv" {
		quoted = with(schema.EscapeQuoted)
	}
	null, only := nulls(base, all), onlyEscapes(all, in.Delimiter)
	switch {
	case every > max(none, quoted), quoted > none && null && every == quoted, null && only && in.Format == "tsv":
		in.Escape = schema.EscapeAll
	case quoted > none:
		in.Escape = schema.EscapeQuoted
	case only && !null && in.Format == "tsv":
		in.Notes = append(in.Notes, `every backslash is followed by a letter that MySQL and PostgreSQL write after one, such as \n; if one of them, or MariaDB, wrote the file, set data.escape: all`)
	}
}

// fits returns the number of lines with the most frequent number of fields.
func fits(src schema.Source, all []string) (n int) {
	form, widths := record.NewDelimited(src), map[int]int{}
	for _, line := range all {
		if fields, fl := form.Split([]byte(line), nil); fl == nil {
			widths[len(fields)]++
		}
	}
	_, n = mode(widths)
	return n
}

// isQuoted reports whether fields between tabs are certainly quoted: an empty field is written
// as two quotes, or quotes contain a tab; and every field that begins with a quote ends with
// one.
func isQuoted(base schema.Source, all []string) bool {
	sure := false
	for _, line := range all {
		for s := range strings.SplitSeq(line, base.Delimiter) {
			sure = sure || s == `""`
		}
	}
	quoted := base
	quoted.Format = "csv"
	plain, n := fits(base, all), fits(quoted, all)
	quoted.Escape = schema.EscapeQuoted
	n = max(n, fits(quoted, all))
	return n > plain || sure && n == plain
}

// nulls reports whether a field is \N.
func nulls(base schema.Source, all []string) bool {
	if base.Format == "csv" {
		base.Escape = schema.EscapeQuoted // quotes may be escaped before it
	}
	form := record.NewDelimited(base)
	return slices.ContainsFunc(all, func(line string) bool {
		fields, _ := form.Split([]byte(line), nil)
		return slices.ContainsFunc(fields, func(f []byte) bool { return string(f) == `\N` })
	})
}

// onlyEscapes reports whether lines contain escapes other than \N, and no backslash that is not
// one.
func onlyEscapes(all []string, delimiter string) (some bool) {
	for _, line := range all {
		for {
			_, rest, found := strings.Cut(line, `\`)
			if !found {
				break
			}
			if rest == "" { // of a line break
				return true
			}
			if !strings.Contains(`\0bfnrtvZN"`+delimiter, rest[:1]) {
				return false
			}
			some, line = some || rest[0] != 'N', rest[1:]
		}
	}
	return some
}

// endsEscaped reports whether the line break behind a line may be escaped.
func endsEscaped(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// sniffLines is the number of lines that are used to find the delimiter.
const sniffLines = 50

// sniffDelimiter chooses the delimiter that splits most lines into the same number of
// fields; of several, the one with the most fields.
func (in *Inspection) sniffDelimiter(all []string) {
	bestSame, bestWidth := -1, 0
	for _, delim := range record.Delimiters() {
		format := "csv"
		if delim == "\t" {
			format = "tsv"
		}
		widths := map[int]int{}
		form := record.NewDelimited(schema.Source{Format: format, Delimiter: delim})
		for _, line := range all[:min(len(all), sniffLines)] {
			if fields, fl := form.Split([]byte(line), nil); fl == nil && len(fields) > 1 {
				widths[len(fields)]++
			}
		}
		width, same := mode(widths)
		if same > bestSame || same == bestSame && width > bestWidth {
			in.Format, in.Delimiter, bestSame, bestWidth = format, delim, same, width
		}
	}
	if bestWidth == 0 {
		in.Format, in.Delimiter = "csv", "," // one column
	}
}

// split splits lines into fields and leaves out lines of another width. Width 0 means the
// width of most lines.
func (in *Inspection) split(all []string, width int) [][]string {
	form := record.NewDelimited(schema.Source{Format: in.Format, Delimiter: in.Delimiter, Escape: in.Escape})
	widths, records := map[int]int{}, make([][]string, 0, len(all))
	for _, line := range all {
		fields, fl := form.Split([]byte(line), nil)
		if fl != nil {
			in.Ragged++
			continue
		}
		record := make([]string, len(fields))
		for i, f := range fields {
			record[i] = string(f)
		}
		widths[len(record)]++
		records = append(records, record)
	}
	if width == 0 {
		width, _ = mode(widths)
	}
	n := len(records)
	records = slices.DeleteFunc(records, func(r []string) bool { return len(r) != width })
	in.Ragged += n - len(records)
	return records
}

// consistent reports whether enough of the lines read have the same number of fields to be
// records: three fifths, or nine tenths if blanks separate the fields, as they do in prose.
func (in *Inspection) consistent(same, read int) bool {
	if in.Delimiter == " " {
		return 10*same >= 9*read
	}
	return 5*same >= 3*read
}
