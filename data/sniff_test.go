package data

import (
	"slices"
	"testing"
)

// Inspect tells every format, packed or not, and finds its columns and label.
func TestInspectEveryFormat(t *testing.T) {
	everyFormat(t, func(t *testing.T, format, packing string) {
		dir := inFiles(t, packing, pack(t, packing, numberedIn(t, format, 0, 300)))
		in, err := Inspect(dir+"/part-00"+packing, 200)
		if err != nil {
			t.Fatal(err)
		}
		want, rows, label := format, 200, "y"
		names := []string{"n", "x", "y"}
		switch format {
		case "csv", "tsv":
			names, label = []string{"column_1", "column_2", "column_3"}, "column_3"
		case "libsvm":
			names, label = []string{"label", "features", "values"}, "label"
		case "libffm":
			names, label = []string{"label", "3", "7"}, "label"
		case "parquet":
			names = []string{"l", "n", "x", "y"}
		}
		var got []string
		for _, c := range in.Columns {
			got = append(got, c.Name)
		}
		slices.Sort(got)
		slices.Sort(names)
		if in.Format != want || in.Rows != rows || in.Label != label || !slices.Equal(got, names) {
			t.Errorf("format %s, %d rows, label %s, columns %v", in.Format, in.Rows, in.Label, got)
		}
	})
}

func TestInspectKnowsCriteo(t *testing.T) {
	row := "1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\t\tz\n"
	in, err := Inspect(write(t, "day", row+"0"+row[1:]), 0)
	if err != nil || in.Format != "criteo" || in.Label != "label" || in.Columns[39].Name != "C26" {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err = Inspect(write(t, "day", "2"+row[1:]+row), 0); err != nil || in.Format != "tsv" {
		t.Errorf("with a label of 2: %s, %v", in.Format, err)
	}
}
