package data

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// surveyCases are ways to divide records into training and validation data.
var surveyCases = map[string]func(d *Dataset, s *schema.Schema) error{
	"all":       func(*Dataset, *schema.Schema) error { return nil },
	"held out":  func(d *Dataset, _ *schema.Schema) error { return d.HoldOut(.3, 1) },
	"groups":    func(d *Dataset, s *schema.Schema) error { return d.HoldOutGroups(s.HoldOut, .3, 1) },
	"negatives": func(d *Dataset, _ *schema.Schema) error { return d.KeepNegatives(.5, 1) },
}

// surveyed returns the result of a scan as text, and the first error.
func surveyed(t *testing.T, path string, missing []string, s schema.Schema, bad int64, name string, byRow bool) (text string, err error) {
	t.Helper()
	if name == "groups" {
		s.HoldOut = s.Features[0].Field
	}
	d, err := Open(schema.Source{Format: "parquet", Missing: missing, MaxBad: bad}, s, []string{path})
	if err != nil {
		return "", err
	}
	d.byRow, d.limits.group = byRow, 4000
	fatal.If(t, surveyCases[name](d, &s))
	var letters []string
	d.OnBad(func(at record.Fault, b []byte) { letters = append(letters, fmt.Sprintf("%+v %x", at, b)) })
	fit := encode.NewFit(s)
	c, err := d.Scan(context.Background(), 0, 1, fit, nil)
	if err == nil {
		text = fmt.Sprintf("%x\n%x\n", c.Marshal(), fit.Marshal())
	}
	return text + strings.Join(letters, "\n"), err
}

// sameSurveys compares the scan of a table by column with the scan row by row.
func sameSurveys(t *testing.T, path string, missing []string, s schema.Schema) {
	t.Helper()
	for name := range surveyCases {
		for _, bad := range []int64{0, 1000} {
			got, err := surveyed(t, path, missing, s, bad, name, false)
			want, e := surveyed(t, path, missing, s, bad, name, true)
			if got != want || fmt.Sprint(err) != fmt.Sprint(e) {
				t.Errorf("%s, %q missing, %d may be bad, schema %+v:\n got %.600s, %v\nwant %.600s, %v", name, missing, bad, s, got, err, want, e)
			}
		}
	}
}

// A table scanned by column gives the counts, statistics and faults of its rows.
func TestSurveysAreChecksOfRows(t *testing.T) {
	rows := make([]tableRow, 1300)
	for i := range rows {
		n, x := int64(i*i%1500), float64(i%7)/4
		rows[i] = tableRow{Y: int64(i % 2), A: []string{"7", "7.0", "1e5", "-3", "12345678901234567.5"}[i%5], B: &n, C: &x}
		if i%5 == 3 {
			rows[i].B, rows[i].C = nil, nil
		}
		if i < 600 {
			rows[i].C = nil
		}
	}
	nan := math.NaN()
	rows[700].A, rows[701].C, rows[702].Y, rows[1100].A = "many", &nan, 2, ""
	number, yes := schema.Label{Field: "y", Kind: "number"}, .5
	labels := map[string]schema.Schema{
		"listed":    {Label: schema.Label{Field: "y", Positive: []string{"1"}, Negative: []string{"0"}}},
		"threshold": {Label: schema.Label{Field: "b", Threshold: &yes}},
		"number":    {Label: number, Labels: []schema.Label{{Field: "c", Threshold: &yes}}},
		"weights":   {Label: schema.Label{Field: "y", Weight: "b"}},
	}
	encodings := []schema.Feature{
		{Field: "a", Encode: "hash"}, {Field: "a", Encode: "id"}, {Field: "a", Encode: "raw"}, {Field: "a", Encode: "vocabulary"},
		{Field: "b", Encode: "hash"}, {Field: "b", Encode: "id"}, {Field: "b", Encode: "quantile", Buckets: 4}, {Field: "c", Encode: "standardise"},
		{Field: "c", Encode: "vocabulary"}, {Field: "a", Encode: "month"},
	}
	for i, options := range [][]parquet.WriterOption{nil, {parquet.PageBufferSize(300)}, {parquet.MaxRowsPerRowGroup(2000)}} {
		for r := range rows {
			if i == 2 { // no value of a is known, and c has one only in a faulty record
				if rows[r].A, rows[r].C = "7.0", nil; rows[r].Y == 2 {
					rows[r].C = &yes
				}
			}
		}
		path := datatest.Write(t, fmt.Sprint(i, ".parquet"), string(inTable(t, rows, options...)))
		for name, s := range labels {
			for _, f := range encodings {
				if slices.ContainsFunc(append(slices.Clone(s.Labels), s.Label), func(l schema.Label) bool { return l.Field == f.Field || l.Weight == f.Field }) {
					continue
				}
				s.Features = []schema.Feature{f, {Field: "a", Name: "other", Encode: "hash"}}
				for _, missing := range [][]string{nil, {"7.0", "3", "many"}} {
					if sameSurveys(t, path, missing, s); t.Failed() {
						t.Fatalf("label %s", name)
					}
				}
			}
		}
	}
}

// A survey reads every row that has no fault, and every row of a block after one with a fault.
func TestSurveysReadAllRows(t *testing.T) {
	rows := make([]tableRow, 1200)
	for i := range rows {
		n, x := int64(i), 1.5
		rows[i] = tableRow{Y: int64(i % 2), A: "a", B: &n, C: &x}
	}
	rows[200].Y = 7
	s := schema.Schema{Label: schema.Label{Field: "y", Positive: []string{"1"}, Negative: []string{"0"}}, Features: []schema.Feature{{Field: "a", Encode: "hash"}}}
	d, err := Open(schema.Source{Format: "parquet"}, s, []string{datatest.Write(t, "t.parquet", string(inTable(t, rows)))})
	fatal.If(t, err)
	c, err := d.newScanner(d.schema)
	fatal.If(t, err)
	defer c.Close()
	c.keeper, err = d.newKeeper(c.RowCoder, nil)
	fatal.If(t, err)
	c.byColumn()
	var units []int64
	for b, bl := range d.set.Blocks {
		n := tally{block: b, file: &d.set.Files[0]}
		fatal.If(t, c.OpenFile(0))
		fatal.If(t, c.Reader.Begin(c.Content, n.file, bl, -1, 0))
		_, err := c.columns(context.Background(), &n)
		fatal.If(t, err)
		units = append(units, n.units)
	}
	if !slices.Equal(units, []int64{500, 500, 200}) {
		t.Errorf("read by column: %d rows of the blocks", units)
	}
}
