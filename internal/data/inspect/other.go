package inspect

import (
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// For is s as it can read these files, which may be written in another format than
// those that s was made for: in one that names fields itself, whatever s says, and
// where that names them too, in text with a header.
func For(s schema.Source, files []string) (schema.Source, error) {
	own := schema.Source{Format: SelfDescribed(files)}
	switch {
	case own.Format == s.Format || len(files) == 0:
		return s, nil
	case own.Format == "" && !schema.NamesFields(s.Format):
		return s, nil
	case own.Format == "":
		var err error
		if own, err = WithHeader(files); err != nil {
			return s, err
		}
	}
	s.Format, s.Delimiter, s.Header, s.Fields, s.Comment, s.Multiline = own.Format, own.Delimiter, own.Header, own.Fields, own.Comment, own.Multiline
	return s, nil
}

// Unlike says how the first of these files looks to be written, and how s has it,
// where the two differ; "" where they do not. It is a guess.
func Unlike(s schema.Source, files []string) string {
	all, err := record.Resolve(files)
	if err != nil {
		return ""
	}
	in, err := First(all[0].Name, 0)
	if err != nil {
		return ""
	}
	seen, said := layoutIn(in.Source()), layoutIn(s)
	if seen == said {
		return ""
	}
	return fmt.Sprintf("%s looks like %s, and the configuration says %s", all[0].Name, seen, said)
}

// layoutIn names the format, and how lines are cut.
func layoutIn(s schema.Source) string {
	name := s.FormatName()
	if name == "criteo" {
		name, s.Delimiter = "tsv", "" // whose lines look the same
	}
	if name != "csv" && name != "tsv" {
		return name
	}
	if delim := string(record.NewDelimited(s).Delim); strings.Trim(delim, ",\t") != "" {
		name += fmt.Sprintf(" (delimiter %q)", delim)
	} else {
		name = map[string]string{",": "csv", "\t": "tsv"}[delim]
	}
	return name + map[bool]string{true: " with a header", false: " without a header"}[s.Header]
}
