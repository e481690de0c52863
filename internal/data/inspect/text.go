package inspect

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// joinLines reads the sample again as records with line breaks in quotes or behind a backslash,
// if a file has such records: some of its lines have an unclosed quote, or too few fields.
func (in *Inspection) joinLines(s *record.Sample, all []sampled) ([]sampled, error) {
	escape := in.Escape
	if in.Format != "csv" {
		if !slices.ContainsFunc(all, func(x sampled) bool { return slices.ContainsFunc(x.lines, endsEscaped) }) {
			return all, nil
		}
		in.Escape = schema.EscapeAll
	}
	in.Multiline = true
	src := in.Source()
	src.Header, src.Fields = false, nil
	form := record.NewDelimited(src)
	for i := range s.Files {
		breaks, err := form.HasLineBreaks(&s.Files[i], record.SearchedBytes/int64(len(s.Files)))
		if err != nil {
			return nil, err
		}
		if !breaks {
			continue
		}
		for j := range s.Files {
			s.Files[j].ReadOnwards()
		}
		s.Part = false // of the lines
		return sample(s, form.Records(nil))
	}
	in.Multiline, in.Escape = false, escape
	return all, nil
}

// noteEncoding notes the first line that is not UTF-8.
func (in *Inspection) noteEncoding(s *record.Sample, all []sampled) {
	for file := range all {
		for i, line := range all[file].lines {
			if utf8.ValidString(line) {
				continue
			}
			place := s.Files[file].Name
			if at, err := record.NewDelimited(in.Source()).Place(&s.Files[file], all[file].offsets[i]); err == nil {
				place = at.Place()
			}
			in.Notes = append(in.Notes, fmt.Sprintf("%s: the text is not UTF-8; names and values that are not cannot be used in a configuration: convert the file (iconv -f WINDOWS-1252 -t UTF-8 %s > NEW)", place, shellWord(s.Files[file].Name)))
			return
		}
	}
}

// zeroByte returns the error of the first line with a zero byte, in a file that is text
// otherwise.
func zeroByte(f *record.File, x *sampled) error {
	i := slices.IndexFunc(x.lines, func(line string) bool { return strings.IndexByte(line, 0) >= 0 })
	if i < 0 || isBinary(x.lines) {
		return nil
	}
	place := f.Name
	if at, err := record.NewDelimited(schema.Source{}).Place(f, x.offsets[i]); err == nil {
		place = at.Place()
	}
	return fmt.Errorf("%s: %s", place, strings.Replace(record.ZeroByte, "NAME", shellWord(f.Name), 1))
}

// shellWord quotes a file name for a shell if necessary.
func shellWord(name string) string {
	if strings.ContainsAny(name, " '\"$`\\&;()<>|*?[]#~!") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// isBinary reports whether lines are binary data. Text in any encoding has hardly any zero
// bytes or control characters, except those between the fields, values and pairs of Hive.
func isBinary(all []string) bool {
	const inHundred = 1
	bytes, odd := 0, 0
	for _, s := range all {
		bytes += len(s)
		for i := range len(s) {
			switch c := s[i]; {
			case c > 0 && c <= 3:
			case c < ' ' && c != '\t' && c != '\r' && c != '\f' || c == 0x7f:
				odd++
			}
		}
	}
	return 100*odd > inHundred*bytes
}
