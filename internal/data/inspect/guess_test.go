package inspect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// tableOf writes n lines of a function of the line's number.
func tableOf(header string, n int, line func(i int) string) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// TestGuessLabel: files whose labels are known.
func TestGuessLabel(t *testing.T) {
	var criteo bytes.Buffer
	g, err := synth.New("criteo")
	fatal.If(t, err)
	fatal.If(t, g.Write(&criteo, 0, 2000))
	for name, x := range map[string]struct {
		content, label, positive string
		sure                     bool
	}{
		"criteo": {criteo.String(), "label", "1", true},
		"movielens": {tableOf("userId,movieId,rating,timestamp\n", 99, func(i int) string { return fmt.Sprintf("%d,%d,%g,%d", i%7, i%31, 0.5*float64(1+i%10), 1e9+i) }),
			"rating", "", false},
		"two times":  {tableOf("timestamp,member_id,size\n", 9, func(i int) string { return fmt.Sprintf("%d,%d,%d", i%2, i%2, i) }), "size", "", false},
		"in between": {tableOf("age,bought_it,day\n", 9, func(i int) string { return fmt.Sprintf("%d,%d,%d", i, i%2, 3*i) }), "bought_it", "1", false},
		"named": {tableOf("a,ad_click,b\n", 9, func(i int) string { return fmt.Sprintf("%d,%d,%d", i%2, i%2, i%2) }),
			"ad_click", "1", true},
		"better named": {tableOf("y,target\n", 9, func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) }), "target", "1", true},
		"last by texts": {tableOf("a,b,c\n", 9, func(i int) string { return fmt.Sprintf("%d,%d,%s", i, i%5, []string{"yes", "no"}[i%2]) }),
			"c", "yes", false},
		"first by texts": {tableOf("kind,b,size\n", 9, func(i int) string { return fmt.Sprintf("%s,%d,%d", []string{"good", "bad", "good"}[i%3], i%5, i) }),
			"kind", "bad", false},
	} {
		in, err := First(datatest.Write(t, "x.csv", x.content), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(in.Positive, " "); in.Label != x.label || in.Sure != x.sure || got != x.positive {
			t.Errorf("%s: label %s, sure %v, positive %q; want %s, %v, %q", name, in.Label, in.Sure, got, x.label, x.sure, x.positive)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"user_id": "id", "userId": "id", "userid": "id", "UserID": "id", "id": "id", "id_product": "id", "brand": "id", "customer": "id",
		"zip": "id", "zip_code": "id", "paid": "", "width": "", "area": "", "trip_start_hour": "hour", "weekday": "hour", "holiday": "",
		"timestamp": "time", "created_at": "time", "pickupTime": "time", "at": "", "format": "",
		"label": "label", "Label": "label", "isClick": "label", "y": "label", "clicked": "label", "clicker": "", "": "", "C1": "",
		"rating": "rating", "avg_stars": "rating", "berating": "",
	} {
		got := ""
		for kind, is := range map[string]bool{"id": IsIDName(name), "time": IsTimeName(name), "label": IsLabelName(name), "rating": IsRatingName(name), "hour": IsHourName(name)} {
			if is {
				got += kind
			}
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestInspectSeparator: genres of films are several values per field, each counts, and
// rare marks are not separators. The result is the same in every format.
func TestInspectSeparator(t *testing.T) {
	write := func(form string) func(int) string {
		return func(i int) string {
			rare := "b"
			if i < 10 {
				rare = "b|c"
			}
			return fmt.Sprintf(form, []string{"Drama", "Comedy", "Comedy|Drama | "}[i%3], rare, i%2)
		}
	}
	for name, content := range map[string]string{
		"films.csv":   tableOf("genres,tags,path,list,clean\n", 100, write("%s,x^y,%s,k,%d")),
		"films.jsonl": tableOf("", 100, write(`{"genres":"%s","tags":"x^y","path":"%s","list":["k","l|m"],"clean":%d}`)),
	} {
		in, err := First(datatest.Write(t, name, content), 0)
		fatal.If(t, err)
		for column, want := range map[string]string{"genres": "|", "tags": "^", "path": "", "list": "", "clean": ""} {
			c := in.Columns[slices.IndexFunc(in.Columns, func(c Column) bool { return c.Name == column })]
			if c.Separator != want {
				t.Errorf("%s: %s is cut at %q, want %q", name, c.Name, c.Separator, want)
			}
			if column == "genres" && (c.Distinct != 2 || !slices.Equal(c.Examples, []string{"Drama", "Comedy"})) {
				t.Errorf("%s: %d genres, such as %q", name, c.Distinct, c.Examples)
			}
		}
		if in.Label != "clean" {
			t.Errorf("%s: the label is %s", name, in.Label)
		}
	}
}

// TestInspectLists: blanks, commas and semicolons separate values if fields are combinations
// of few values. They do not in names, titles, dates, coordinates and numbers.
func TestInspectLists(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	join := func(n int, sep string, value func() string) string {
		values := make([]string, n)
		for i := range values {
			values[i] = value()
		}
		return strings.Join(values, sep)
	}
	number := func(n int) func() string { return func() string { return strconv.Itoa(r.IntN(n)) } }
	half := func() string { return fmt.Sprintf("0.%02d", 1+r.IntN(99)) }
	rare := func() string { return strconv.Itoa(int(2000 * r.Float64() * r.Float64())) }
	for want, field := range map[string]func() string{
		`genres ","`: func() string {
			return join(1+r.IntN(4), ", ", func() string { return string(rune('a' + r.IntN(9))) })
		},
		`hist " " int`:      func() string { return join(1+r.IntN(9), " ", number(300)) },
		`recent " " int`:    func() string { return join(min(5, 1+r.IntN(30)), " ", rare) },
		`weights ";" float`: func() string { return join(1+r.IntN(9), ";", half) },
		`title ""`:          func() string { return join(1+r.IntN(5), " ", number(1<<40)) },
		`city ""`:           func() string { return []string{"New York City", "Rome", "Los Angeles", "Dallas"}[r.IntN(4)] },
		`price ""`:          func() string { return fmt.Sprintf("%d,%02d", r.IntN(90), r.IntN(100)) },
		`place ""`:          func() string { return fmt.Sprintf("%d.5 %d.5", r.IntN(60), r.IntN(60)) },
		`day ""`:            func() string { return fmt.Sprintf("%d. Juni %d", 1+r.IntN(30), 1900+r.IntN(99)) },
	} {
		name, _, _ := strings.Cut(want, " ")
		text := tableOf(name+"\tclick\n", 2000, func(i int) string { return fmt.Sprintf("%s\t%d", field(), i%2) })
		in, err := First(datatest.Write(t, "x.tsv", text), 0)
		if err != nil {
			t.Fatal(err)
		}
		c := in.Columns[0]
		if got := fmt.Sprintf("%s %q", name, c.Separator); got != want && got+" "+c.Parts != want {
			t.Errorf("%s %q, want %s", got, c.Parts, want)
		}
	}
}

// TestInspectRows: the number of records is the requested one, with or without a header.
func TestInspectRows(t *testing.T) {
	for _, header := range []string{"", "a,label\n"} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(header, 50, func(i int) string { return fmt.Sprintf("%d,%d", i, i%2) })), 20)
		if err != nil || in.Rows != 20 || in.Columns[0].Distinct != 20 {
			t.Errorf("header %q: %+v, %v; want 20 rows", header, in, err)
		}
	}
}

// TestInspectBinary: binary data is rejected, other encodings than UTF-8 are not.
func TestInspectBinary(t *testing.T) {
	r, random := rand.New(rand.NewPCG(1, 2)), make([]byte, 1<<16)
	for i := range random {
		random[i] = byte(1 + r.IntN(255)) // without zeros, which alone would show it
	}
	for name, content := range map[string]string{"random": string(random), "zeros": "a,b\n1,\x002\n3,4\n"} {
		if _, err := First(datatest.Write(t, "x.bin", content), 0); err == nil || !strings.Contains(err.Error(), "is not text") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := First(datatest.Write(t, "latin.csv", "city,label\nZ\xfcrich,1\nGen\xe8ve,0\n"), 0); err != nil {
		t.Errorf("Latin-1: %v", err)
	}
}
