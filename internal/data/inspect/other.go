package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// For returns s changed to read these files, which may have another format than those that
// s was made for. If the format names its fields, it replaces the format of s. If only the
// format of s names them, the files are read as text with a header.
func For(s schema.Source, files []string) (schema.Source, error) {
	own := schema.Source{Format: SelfDescribed(files)}
	switch {
	case own.Format == s.Format || len(files) == 0:
		return s, nil
	case own.Format == "" && (!schema.NamesFields(s.Format) || s.Registry.On() && slices.ContainsFunc(files, record.IsTopic)):
		return s, nil
	case own.Format == "":
		var err error
		if own, err = WithHeader(files); err != nil && s.EachHost() {
			return s, nil // the files may be on other hosts only
		}
		if err != nil {
			return s, err
		}
	}
	s.Format, s.Delimiter, s.Header, s.Fields, s.Comment, s.Multiline = own.Format, own.Delimiter, own.Header, own.Fields, own.Comment, own.Multiline
	s.Escape = own.Escape
	return s, nil
}

// Unlike compares the apparent layout of the first of these files with s. It describes
// both if they differ, and returns "" otherwise. It is a guess.
func Unlike(s schema.Source, files []string) string {
	what, _ := Layout(s, files)
	return what
}

// Layout is Unlike, and returns the settings, KEY=VALUE, that make s suit the file.
func Layout(s schema.Source, files []string) (what string, settings []string) {
	all, err := record.Resolve(files)
	if err != nil {
		return "", nil
	}
	all = record.Full(all[:min(len(all), someFiles)])
	in, err := First(all[0].Name, 0)
	if err != nil {
		return "", nil
	}
	own := in.Source()
	detected, configured := layoutIn(own), layoutIn(s)
	if detected == configured {
		return "", nil
	}
	settings = append(settings, "data.format="+own.FormatName())
	if own.HasLayout() {
		if record.NewDelimited(own).Delim != record.NewDelimited(schema.Source{Format: own.Format}).Delim {
			settings = append(settings, "data.delimiter="+own.Delimiter)
		}
		if own.Header != s.Header {
			settings = append(settings, fmt.Sprintf("data.header=%t", own.Header))
		}
	}
	return fmt.Sprintf("%s looks like %s, but the configuration is for %s", all[0].Name, detected, configured), settings
}

// layoutIn describes the format and the layout of lines.
func layoutIn(s schema.Source) string {
	name := s.FormatName()
	if name == "criteo" {
		name, s.Delimiter = "tsv", "" // its lines look the same
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

// WithHeader returns the source settings of text files that name their fields in a header,
// for callers that know the fields only by name. It reads the first file.
func WithHeader(patterns []string) (src schema.Source, err error) {
	files, err := record.Resolve(patterns)
	if err != nil {
		return src, err
	}
	files = record.Full(files[:min(len(files), someFiles)])
	in, err := First(files[0].Name, 0)
	if err != nil {
		return src, err
	}
	if src = in.Source(); src.HasLayout() && !src.Header {
		return src, fmt.Errorf("%s: its fields have no names: it is %s without a header; write one, or convert the file to a format that names its fields", files[0].Name, in.Format)
	}
	return src, nil
}
