package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Inspect recognises every format, packed or not, and finds its columns and label.
func TestInspectEveryFormat(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		dir := datatest.Files(t, packing, datatest.Pack(t, packing, datatest.Numbered(t, format, 0, 300)))
		in, err := First(dir+"/part-00"+packing, 200)
		fatal.If(t, err)
		want, rows, label := format, 200, "y"
		names := []string{"n", "x", "y"}
		switch format {
		case "csv", "tsv":
			names, label = []string{"column_1", "column_2", "column_3"}, "column_3"
		case "libsvm":
			names, label = []string{"label", "features", "values"}, "label"
		case "libffm":
			names, label = []string{"label", "3", "7", "7_values"}, "label"
		case "parquet":
			names = []string{"l", "n", "x", "y"}
		case "jsonl": // o is an object
			names = append(names, "o.n")
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
	in, err := First(datatest.Write(t, "day", row+"0"+row[1:]), 0)
	if err != nil || in.Format != "criteo" || in.Label != "label" || in.Columns[39].Name != "C26" {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err = First(datatest.Write(t, "day", "2"+row[1:]+row), 0); err != nil || in.Format != "tsv" {
		t.Errorf("with a label of 2: %s, %v", in.Format, err)
	}
}

// TestInspectSVM: few indices with values are columns; ones, or many, are a list.
func TestInspectSVM(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "%d %d:0.5\n", i%2, i+1)
	}
	for name, x := range map[string]struct{ content, want string }{
		"values": {"1 1:0.5 7:2 # 9:1\n-1 qid:4 7:1\n", "label 1 7"},
		"ones":   {"1 1:1 7:1\n0 7:1\n", "label features values"},
		"many":   {many.String(), "label features values"},
	} {
		in, err := First(datatest.Write(t, "a.libsvm", x.content), 0)
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, c := range in.Columns {
			got = append(got, c.Name)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s: the columns are %q, want %s", name, got, x.want)
		}
	}
}
