package write_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestNullsKeepTheirPlaces: lists that belong together, such as values and their weights, stay
// together in every format; a format that cannot hold a null in a list says so.
func TestNullsKeepTheirPlaces(t *testing.T) {
	columns := []write.Column{{Name: "label", Kind: value.Int}, {Name: "tags", Kind: value.Text, Many: true}, {Name: "ws", Kind: value.Float64, Many: true}}
	label := value.List{Kind: value.Int, Ints: []int64{1}}
	records := [][]value.List{
		{label, {Kind: value.Text, Texts: [][]byte{[]byte("x"), []byte("y")}, Nulls: []int32{1}}, {Kind: value.Float64, Reals: []float64{2, 3}, Nulls: []int32{0}}},
		{label, {Nulls: []int32{0, 1}}, {Kind: value.Float64, Reals: []float64{4}, Nulls: []int32{1, 2}}},
		{label, {Kind: value.Text, Texts: [][]byte{nil, []byte("z")}}, {}},
	}
	for format, want := range map[string]string{
		"jsonl":    "[x null y] [null 2.0 3.0]; [null null] [4.0 null null]; [null z] []",
		"parquet":  "[x null y] [null 2.0 3.0]; [null null] [4.0 null null]; [null z] []",
		"arrow":    "[x null y] [null 2.0 3.0]; [null null] [4.0 null null]; [null z] []",
		"avro":     "[x null y] [null 2.0 3.0]; [null null] [4.0 null null]; [null z] []",
		"csv":      "[x||y] [|2.0|3.0]; [|] [4.0||]; [|z] []",
		"tfrecord": "record 1: lists with a null, which this format cannot hold: tags, ws; write jsonl, parquet or csv, or name the other columns in -fields",
		"libffm":   "column tags has strings",
	} {
		src := schema.Source{Format: format, Header: format == "csv"}
		path, err := written(t.TempDir(), write.Layout{Format: format}, "none", columns, records)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", format, err, want)
			}
			continue
		}
		if got := places(t, path, src); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

// places returns the lists tags and ws of each record with their nulls.
func places(t *testing.T, path string, src schema.Source) string {
	f, err := record.OpenFiles(src, []string{path})
	fatal.If(t, err)
	var all []string
	_, err = f.Walk(context.Background(), []string{"tags", "ws"}, 1, func(lists []value.List) error {
		var parts [2][]string
		for i := range lists {
			for k := range lists[i].All {
				part := "null"
				if k >= 0 {
					part = string(lists[i].Append(nil, k))
				}
				parts[i] = append(parts[i], part)
			}
		}
		all = append(all, fmt.Sprint(parts[0], " ", parts[1]))
		return nil
	}, nil)
	fatal.If(t, err)
	return strings.Join(all, "; ")
}
