package inspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestGuessRule: the values of a label that mean 1 are found, and both classes occur.
func TestGuessRule(t *testing.T) {
	const n = 120
	for name, x := range map[string]struct {
		header string
		value  func(i int) string
		want   string // threshold or values
		sure   bool
	}{
		"flag":           {"click", func(i int) string { return fmt.Sprint(i % 2) }, "1", true},
		"one and minus":  {"label", func(i int) string { return fmt.Sprint(i%2*2 - 1) }, "1", true},
		"one and two":    {"label", func(i int) string { return fmt.Sprint(1 + i%2) }, "1", false},
		"yes and no":     {"bought", func(i int) string { return []string{"no", "Yes"}[i%2] }, "Yes", true},
		"formats":        {"target", func(i int) string { return []string{"0", "1", "True", "false", "1.0", "0.0"}[i%6] }, "1 1.0 True", false},
		"three classes":  {"target", func(i int) string { return []string{"yes", "no", "maybe"}[i%3] }, "yes", false},
		"other words":    {"target", func(i int) string { return []string{">50K", "<=50K", "<=50K"}[i%3] }, ">50K", false},
		"two files":      {"income", func(i int) string { return []string{">50K", "<=50K", "<=50K", "<=50K", ">50K.", "<=50K."}[i%6] }, ">50K >50K.", false},
		"stars":          {"rating", func(i int) string { return fmt.Sprint(1 + i%5) }, "from 4", false},
		"half stars":     {"rating", func(i int) string { return fmt.Sprint(0.5 * float64(1+i%10)) }, "from 4", false},
		"negative score": {"score", func(i int) string { return fmt.Sprint(-i % 7) }, "from -3", false},
		"tips":           {"tip_amount", func(i int) string { return fmt.Sprint(float64(i%3) * float64(i) / 8) }, "from 0.125", false},
		"all positive":   {"watched", func(i int) string { return fmt.Sprint(100 + i) }, "from 160", false},
		"mostly largest": {"score", func(i int) string { return []string{"5", "5", "5", "4.5", "4.8", "4.9"}[i%6] }, "from 5", false},
		"many words":     {"outcome", func(i int) string { return []string{"lost", "won", "drawn"}[i%3] }, "won", false},
	} {
		text := tableOf("a,"+x.header+"\n", n, func(i int) string { return fmt.Sprintf("%d.5,%s", i%7, x.value(i)) })
		in, err := First(datatest.Write(t, "x.csv", text), 0)
		fatal.If(t, err)
		got := strings.Join(in.Positive, " ")
		if in.Threshold != nil {
			got = fmt.Sprint("from ", *in.Threshold)
		}
		ones := 0
		for i := range n {
			if in.isOne(x.value(i)) {
				ones++
			}
		}
		if in.Label != x.header || got != x.want || in.Certain != x.sure || ones == 0 || ones == n {
			t.Errorf("%s: label %s is 1 for %s, certain %v, in %d of %d records; want %s, %v", name, in.Label, got, in.Certain, ones, n, x.want, x.sure)
		}
	}
}

// TestIsWeightName: only names of the weights of samples, not of the weights of things.
func TestIsWeightName(t *testing.T) {
	for name, want := range map[string]bool{"sample_weight": true, "sampleWeight": true, "Instance Weight": true, "weight": false, "body_weight": false, "importance": false, "sample": false, "": false} {
		if got := IsWeightName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestNoLabelOfOneClass: a column with one value is not a label, and if it has the name of one, the
// others are not either, unless their name is one too.
func TestNoLabelOfOneClass(t *testing.T) {
	for header, want := range map[string]string{
		"click,size,wide":   `x.csv: the field click is the label by its name, but all rows have the value "1", and training needs both classes: name files that have both; or name another label with -label FIELD`,
		"click,size,bought": "",
		"code,size,wide":    "",
	} {
		path := datatest.Write(t, "x.csv", tableOf(header+"\n", 50, func(i int) string { return fmt.Sprintf("1,%d,%d", i, i%2) }))
		in, err := First(path, 0)
		fatal.If(t, err)
		got := ""
		if err := in.OneClass(); err != nil {
			got = strings.TrimPrefix(err.Error(), strings.TrimSuffix(path, "x.csv"))
		}
		if in.Label != strings.Split(header, ",")[2] || got != want {
			t.Errorf("%s: label %s, %s", header, in.Label, got)
		}
	}
	// the positives are in another file than the first
	a, b := datatest.Write(t, "a.csv", tableOf("id,x,label\n", 50, func(i int) string { return fmt.Sprintf("%d,%d,0", i%2, i%7) })), datatest.Write(t, "b.csv", tableOf("id,x,label\n", 50, func(i int) string { return fmt.Sprintf("%d,%d,1", i%2, i%7) }))
	if in, err := All([]string{a, b}, 0); err != nil || in.Label != "label" || in.OneClass() != nil {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestMeasure: a column that repeats the label has the highest AUC.
func TestMeasure(t *testing.T) {
	in, err := First(datatest.Write(t, "x.csv", tableOf("click,paid,size\n", 500, func(i int) string {
		paid := ""
		if i%3 == 0 {
			paid = fmt.Sprint(i)
		}
		return fmt.Sprintf("%d,%s,%d", max(0, 1-i%3), paid, i%50)
	})), 0)
	if err != nil || !in.Columns[1].Signal.Absence || !in.Columns[1].Signal.Leaks() || in.Columns[2].Signal.Leaks() {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestShape: amounts and identifiers are distinguished by their frequencies, for several
// distributions of each and various numbers of rows.
func TestShape(t *testing.T) {
	zipf := func(r *rand.Rand, n int, code func(k int) int) func() int {
		z := rand.NewZipf(r, 1.2, 3, uint64(n-1))
		return func() int { return code(int(z.Uint64())) }
	}
	scattered := rand.New(rand.NewPCG(7, 7)).Perm(100_000)
	for name, x := range map[string]struct {
		draw func(r *rand.Rand) func() int
		want []Shape
	}{
		"ages":      {func(r *rand.Rand) func() int { return func() int { return max(18, int(45+15*r.NormFloat64())) } }, []Shape{Amount}},
		"counts":    {func(r *rand.Rand) func() int { return func() int { return int(30 * r.ExpFloat64()) } }, []Shape{Amount}},
		"negatives": {func(r *rand.Rand) func() int { return func() int { return int(30 * r.NormFloat64()) } }, []Shape{Amount}},
		"shops":     {func(r *rand.Rand) func() int { return zipf(r, 300, func(k int) int { return scattered[k] + 10 }) }, []Shape{Identifier}},
		"campaigns": {func(r *rand.Rand) func() int { return zipf(r, 60, func(k int) int { return 500 + scattered[k]%1000 }) }, []Shape{Identifier}},
		"uniform":   {func(r *rand.Rand) func() int { return func() int { return 300 + r.IntN(200) } }, []Shape{Unclear}},
		"codes":     {func(r *rand.Rand) func() int { return zipf(r, 40, func(k int) int { return k }) }, []Shape{Unclear}},
		"rounded": {func(r *rand.Rand) func() int {
			return func() int { return []int{10 * r.IntN(12), 10 * r.IntN(12), r.IntN(120)}[r.IntN(3)] }
		}, []Shape{Unclear}},
		"mostly zero": {func(r *rand.Rand) func() int { return func() int { return max(0, 1000*r.IntN(10)-8000) * r.IntN(97) } }, []Shape{Unclear}},
	} {
		for _, rows := range []int{1000, 10_000} {
			for seed := range uint64(5) {
				draw, counts := x.draw(rand.New(rand.NewPCG(seed, 1))), map[float64]int{}
				for range rows {
					counts[float64(draw())]++
				}
				wrong := Identifier
				if x.want[0] == Identifier {
					wrong = Amount
				}
				if got := shapeOf(counts); rows == 10_000 && got != x.want[0] || got == wrong && x.want[0] != Unclear {
					t.Errorf("%s, %d rows, seed %d: %q, want %q", name, rows, seed, got, x.want[0])
				}
			}
		}
	}
}

// TestHeaderOfTexts: names above columns of strings are distinguished from a record.
func TestHeaderOfTexts(t *testing.T) {
	row := func(i int) string { return []string{"x,yes,red", "s,no,red", "x,no,blue", "f,yes,green"}[i%4] }
	for header, want := range map[string]bool{"shape,edible,colour\n": true, "x,no,green\n": false, "": false} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(header, 60, row)), 0)
		if err != nil || in.Header != want {
			t.Errorf("%q: %+v, %v", header, in, err)
		}
	}
}

// TestSpoiltLabel: a column that would be the label but for a few rows is named with the
// reason, and can be chosen.
func TestSpoiltLabel(t *testing.T) {
	for name, x := range map[string]struct {
		header string
		value  func(i int) string
		want   string
	}{
		"a third value": {"income", func(i int) string {
			if i == 7 {
				return "unknown"
			}
			return []string{"low", "high"}[i%2]
		}, `income (3 values, the third ("unknown") in 1 of 200 rows)`},
		"empty": {"income", func(i int) string {
			if i < 4 {
				return ""
			}
			return []string{"low", "high"}[i%2]
		}, "income (no value in 4 of 200 rows)"},
		"one value":   {"click", func(i int) string { return "0" }, `click (all rows have the value "0")`},
		"three kinds": {"income", func(i int) string { return []string{"low", "high", "middle"}[i%3] }, ""},
	} {
		text := tableOf("age,sex,"+x.header+"\n", 200, func(i int) string { return fmt.Sprintf("%d.5,%s,%s", i%7, []string{"F", "M"}[i%3%2], x.value(i)) })
		in, err := First(datatest.Write(t, "x.csv", text), 0)
		fatal.If(t, err)
		if got := strings.Join(in.Rejected, "; "); in.Label != "sex" || got != x.want {
			t.Errorf("%s: label %s, rejected %q; want %q", name, in.Label, got, x.want)
		}
		if err := in.SetLabel(x.header); err != nil || in.Label != x.header || !in.Sure || in.Rejected != nil || len(in.Positive) != 1 {
			t.Errorf("%s: %v, label %s, positive %q", name, err, in.Label, in.Positive)
		}
		if name == "a third value" && in.Positive[0] != "high" {
			t.Errorf("%s: positive %q", name, in.Positive)
		}
		if err := in.SetLabel("incom"); x.header == "income" && (err == nil || !strings.Contains(err.Error(), `no field "incom"`) || !strings.Contains(err.Error(), "income")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLabelByEvidence: a column named like an action, and ratings, precede other columns of two
// values. A property of users is no label.
func TestLabelByEvidence(t *testing.T) {
	for header, want := range map[string]string{
		"sex,is_attributed,user": "is_attributed", "sex,buy,user": "buy", "sex,like,user": "like", "sex,install,user": "install", "finish,sex,user": "finish", "sex,last_purchase,user": "last_purchase",
		"sex,seen,user": "seen", // since each user has one sex
		"seen,sex,kind": "seen",
	} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(header+",size\n", 600, func(i int) string {
			user := i * 7 % 60
			value := map[string]int{"user": 1000 + user, "sex": user % 2, "kind": i % 5}
			var row []string
			for _, name := range strings.Split(header, ",") {
				x, ok := value[name]
				if !ok {
					x = i % 11 % 2
				}
				row = append(row, fmt.Sprint(x))
			}
			return fmt.Sprintf("%s,%d.5", strings.Join(row, ","), i%9)
		})), 0)
		if err != nil || in.Label != want || in.Sure != isFlagName(want) {
			t.Errorf("%s: label %s, sure %v; %v", header, in.Label, in.Sure, err)
		}
	}
	for header, want := range map[string]string{"user,rating,sex": "rating", "stars,user,sex": "stars", "user,hotel_rating,sex": "sex", "user,last_purchase,sex": "sex"} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(header+"\n", 600, func(i int) string {
			return strings.NewReplacer("user", fmt.Sprint(i), "sex", fmt.Sprint(i%2), "stars", fmt.Sprint(1+i%5), "hotel_rating", fmt.Sprint(1+i%5), "rating", fmt.Sprint(1+i%5), "last_purchase", fmt.Sprint(i%90)).Replace(header)
		})), 0)
		if err != nil || in.Label != want || in.Sure {
			t.Errorf("%s: label %s, sure %v; %v", header, in.Label, in.Sure, err)
		}
	}
}

// TestZerosOfSeveralLengths: values that are different texts of one number have no second number.
func TestZerosOfSeveralLengths(t *testing.T) {
	text := tableOf("a,target\n", 120, func(i int) string { return fmt.Sprintf("%d.5,%s", i%7, strings.Repeat("0", 1+i%5)) })
	in, err := First(datatest.Write(t, "x.csv", text), 0)
	fatal.If(t, err)
	if in.Threshold == nil || *in.Threshold != 0 {
		t.Errorf("threshold %v", in.Threshold)
	}
}

// TestBuiltinTestFile: the configuration of the built-in adult.data also reads adult.test, which begins with a
// comment and ends its labels with a full stop.
func TestBuiltinTestFile(t *testing.T) {
	in, err := First("builtin:adult.data", 500)
	fatal.If(t, err)
	if in.Comment != "|" || !slices.Equal(in.Positive, []string{">50K", ">50K."}) || !slices.Equal(in.Negative, []string{"<=50K", "<=50K."}) {
		t.Errorf("comment %q, label %q and %q", in.Comment, in.Positive, in.Negative)
	}
	fatal.If(t, in.SetLabel(in.Columns[9].Name))
	if slices.Contains(in.Positive, ">50K.") {
		t.Errorf("another label has the values %q", in.Positive)
	}
}
