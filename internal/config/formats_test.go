package config

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// lines is a header and the format of a record: %[1]d is the number of the record, %[2]s a
// price, %[3]s a city. A label follows.
func lines(header, form string) string {
	var b strings.Builder
	b.WriteString(header + "\n")
	for i := range 200 {
		fmt.Fprintf(&b, form, i, fmt.Sprintf("%d.%02d", i*37%90, i*53%100), []string{"Bern", "Oslo", "Rome"}[i%3])
		fmt.Fprintf(&b, ",%d\n", i%5/4)
	}
	return b.String()
}

// in16 encodes a text in UTF-16.
func in16(order binary.AppendByteOrder, mark bool, text string) string {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xfeff)
	}
	for _, c := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, c)
	}
	return string(b)
}

// TestSuggestOfFormats: the output of init for files in the formats of other programs.
func TestSuggestOfFormats(t *testing.T) {
	plain := lines("price,city,clicked", "%[2]s,%[3]s")
	at := func(line int, old, new string) string { // in one line
		all := strings.SplitAfter(lines("price,city,clicked", "%[2]s,%[3]s"), "\n")
		all[line-1] = strings.Replace(all[line-1], old, new, 1)
		return strings.Join(all, "")
	}
	files := []struct{ name, content string }{
		{"pandas.csv", lines(",price,city,clicked", "%[1]d,%[2]s,%[3]s")},
		{"pandas-twice.csv", lines(",Unnamed: 0,price,clicked", "%[1]d,%[1]d,%[2]s")},
		{"trailing-comma.csv", strings.ReplaceAll(lines("price,city,clicked", "%[2]s,%[3]s"), "\n", ",\n")},
		{"trailing-commas.csv", strings.ReplaceAll(lines("price,city,clicked", "%[2]s,%[3]s"), "\n", ",,\n")},
		{"breaks.csv", lines("price,note,clicked", "%[2]s,\"a\nb, \"\"c\"\"\"")},
		{"one-break.csv", at(150, "Oslo", "\"Os\nlo\"")},
		{"break-in-header.csv", lines("\"price\nin EUR\",city,clicked", "%[2]s,%[3]s")},
		{"inches.csv", lines("price,size,clicked", "%[2]s,5\" pipe")},
		{"stray.csv", at(151, "23.97", "unknown")},
		{"infinite.csv", strings.ReplaceAll(strings.ReplaceAll(lines("price,city,clicked", "%[2]s,%[3]s"), "\n37.53,", "\ninf,"), "\n74.06,", "\n-inf,")},
		{"money.csv", lines("price,city,clicked", "$%[2]s,%[3]s")},
		{"percent.csv", lines("rate,city,clicked", "%[2]s%%,%[3]s")},
		{"thousands.csv", lines("price,city,clicked", "\"%[1]d,%03[1]d.50\",%[3]s")},
		{"decimal-comma.csv", strings.NewReplacer(".", ",", ",", ";").Replace(plain)},
		{"crlf.csv", strings.ReplaceAll(plain, "\n", "\r\n")},
		{"mark.csv", "\ufeff" + plain},
		{"latin-1.csv", at(33, "Oslo", "Z\xfcrich")},
		{"cr.csv", strings.ReplaceAll(plain, "\n", "\r")},
		{"utf-16le.csv", in16(binary.LittleEndian, true, plain)},
		{"utf-16be.csv", in16(binary.BigEndian, true, plain)},
		{"utf-16-without-mark.csv", in16(binary.LittleEndian, false, plain)},
	}
	tables, err := filepath.Abs("../data/table/testdata")
	fatal.If(t, err)
	here, err := os.Getwd()
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	var all strings.Builder
	for _, f := range files {
		fatal.If(t, os.WriteFile(f.name, []byte(f.content), 0o644))
		all.WriteString(suggested(t, f.name))
	}
	t.Chdir(tables)
	for _, name := range []string{"types.parquet", "nested.parquet"} {
		all.WriteString(suggested(t, name))
	}
	t.Chdir(here)
	golden.Check(t, "formats.txt", all.String())
}

// suggested returns the configuration that init writes for a file, up to the model, or its
// error.
func suggested(t *testing.T, name string) string {
	seen, err := inspect.First(name, 0)
	if err != nil {
		return fmt.Sprintf("== %s\n%v\n\n", name, err)
	}
	text := Suggest(seen, "")
	if _, err := Parse("x.yaml", text); err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
	}
	section, _, _ := strings.Cut(string(text), "\n# Combinations")
	var kept strings.Builder
	for line := range strings.Lines(section) {
		if line != "\n" && !strings.HasPrefix(line, "# Read it") && !strings.HasPrefix(line, "# Every key") && !strings.HasPrefix(line, "  # test:") {
			kept.WriteString(line)
		}
	}
	return fmt.Sprintf("== %s\n%s\n", name, kept.String())
}
