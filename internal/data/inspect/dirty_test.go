package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestOnlyAHeader: a file without records is an error, whatever its header.
func TestOnlyAHeader(t *testing.T) {
	for _, header := range []string{"user,movie,rating\n", "click,age\n"} {
		if _, err := First(datatest.Write(t, "x.csv", header), 0); err == nil || !strings.Contains(err.Error(), "x.csv: it has only a header line, no records; check the program") {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestZeroByte: a zero byte in text is reported with its line and how to remove it.
func TestZeroByte(t *testing.T) {
	text := tableOf("name,click\n", 300, func(i int) string { return fmt.Sprintf("a%s%d,%d", map[bool]string{true: "\x00"}[i == 40], i%9, i%2) })
	if _, err := First(datatest.Write(t, "x.csv", text), 0); err == nil || !strings.Contains(err.Error(), "x.csv:42: a zero byte in the text") || !strings.Contains(err.Error(), `tr -d '\000' < `) {
		t.Errorf("%v", err)
	}
}

// TestGrows: numbers grow if they are times, with few exceptions, and not if most are equal.
func TestGrows(t *testing.T) {
	for want, of := range map[bool][]func(i int) int{
		true:  {func(i int) int { return i }, func(i int) int { return i/2 - i%50/49*6 }},
		false: {func(i int) int { return i % 90 }, func(i int) int { return i / 39 * 39 / max(1, i%39*1000) }, func(int) int { return 5 }, func(i int) int { return -i }, func(i int) int { return i / 5 }},
	} {
		for i, x := range of {
			in, err := First(datatest.Write(t, "x.csv", tableOf("n,click\n", 300, func(i int) string { return fmt.Sprintf("%d,%d", x(i), i*i%7%2) })), 0)
			fatal.If(t, err)
			if got := in.column("n").Grows; got != want {
				t.Errorf("function %d grows: %v", i, got)
			}
		}
	}
}

// TestMissingWordsOfLines: a word for a missing value in a column of strings of lines may be a value, so that
// it is noted with its number. Marks such as ? and words among numbers are not.
func TestMissingWordsOfLines(t *testing.T) {
	text := tableOf("click,country,job,age,empty\n", 400, func(i int) string {
		return fmt.Sprintf("%d,%s,%s,%s,NA", i%2, []string{"DE", "NA", "FR", ""}[i%4], []string{"clerk", "?"}[i%2], map[bool]string{true: "NA", false: fmt.Sprintf("%d.5", i)}[i%3 == 0])
	})
	in, err := First(datatest.Write(t, "x.csv", text), 0)
	fatal.If(t, err)
	if !slices.Equal(in.Missing, []string{"?", "NA"}) || len(in.Notes) != 1 || !strings.HasPrefix(in.Notes[0], `column country holds "NA" in 100 of 300 values; data.missing lists it`) {
		t.Errorf("missing %q, notes %q", in.Missing, in.Notes)
	}
}

// TestFrequentMissingWords: words for a missing value in texts of records are missing values,
// with a note; rare ones and columns of nothing else stay.
func TestFrequentMissingWords(t *testing.T) {
	text := tableOf("", 400, func(i int) string {
		return fmt.Sprintf(`{"click": %d, "city": %q, "name": %q, "word": "None"}`, i%2, []string{"Bern", "nan", "Basel"}[i%3], map[bool]string{true: "NA", false: "x"}[i == 9])
	})
	in, err := First(datatest.Write(t, "x.jsonl", text), 0)
	fatal.If(t, err)
	city := in.column("city")
	if !slices.Equal(in.Missing, []string{"nan"}) || city.Distinct != 2 || city.Missing < .3 || len(in.Notes) != 1 || !strings.Contains(in.Notes[0], `column city holds "nan" in 133 of 400 values`) {
		t.Errorf("missing %q, city %+v, notes %q", in.Missing, city, in.Notes)
	}
}
