package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// full returns a filled Config with a value in every list and behind every pointer that Diff
// can compare.
func full(t *testing.T) *Config {
	t.Helper()
	c := Default()
	_, err := SetAll(c, []string{
		"tables=[{name: sex, deep: {kind: sgd}, wide: {kind: ftrl, l1: 1}, l2: {deep: 1, wide: 2}}]",
		"label.threshold=0.5", "data.valid=[v.csv]", "data.missing=[NA]",
	})
	fatal.If(t, err)
	c.Fill()
	return c
}

// TestDiffOfEveryScalar changes each setting: Diff returns only that setting.
func TestDiffOfEveryScalar(t *testing.T) {
	was := full(t)
	if d := Diff(was, was.Clone()); len(d) > 0 {
		t.Errorf("a copy differs: %q", d)
	}
	s, seen := newGrammar(), 0
	var paths []string
	s.walk(reflect.ValueOf(was).Elem(), "", key{}, func(path string, _ key, _ reflect.Value) { paths = append(paths, path) })
	for at, path := range paths {
		now, i := was.Clone(), -1
		changed := false
		s.walk(reflect.ValueOf(now).Elem(), "", key{}, func(_ string, _ key, v reflect.Value) {
			if i++; i == at {
				changed = change(v)
			}
		})
		if !changed {
			continue
		}
		seen++
		want := path
		if strings.HasSuffix(want, "]") { // a list of scalars is shown completely
			want = parent(want)
		}
		d := Diff(was, now)
		switch {
		case strings.HasSuffix(path, "].name"):
			if len(d) != 2 || !strings.HasPrefix(d[0], parent(path)+": none → {") || !strings.HasSuffix(d[1], "} → none") {
				t.Errorf("%s: %q, want one entry gone and one new", path, d)
			}
		case len(d) != 1 || !strings.HasPrefix(d[0], want+": ") || strings.Count(d[0], " → ") != 1:
			t.Errorf("%s: %q", path, d)
		}
	}
	if seen < 250 {
		t.Errorf("only %d settings were changed", seen)
	}
}

// change sets a scalar to another value; it returns false for a list.
func change(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.25)
	default:
		return false
	}
	return true
}

func TestDiff(t *testing.T) {
	was := full(t)
	for _, x := range []struct {
		change func(c *Config)
		want   []string
	}{
		{func(c *Config) { c.Train.Optimizer.Deep.Kind = "sgd" }, []string{"train.optimizer.deep.kind: adagrad → sgd"}},
		{func(c *Config) { c.Model.Hidden = []int{64} }, []string{"model.hidden: [128, 64] → [64]"}},
		{func(c *Config) { c.Label.Threshold = nil }, []string{"label.threshold: 0.5 → none"}},
		{func(c *Config) { c.Data.Valid = nil }, []string{`data.valid: [v.csv] → none`}},
		{func(c *Config) { c.Data.Comment = "" }, []string{`data.comment: "|" → ""`}},
		{func(c *Config) { c.Tables[0].Wide = nil }, []string{"tables[0].wide: {kind: ftrl, learning_rate: 0.1, beta: 1, l1: 1} → none"}},
		{func(c *Config) { c.Crosses = c.Crosses[1:] }, []string{
			"crosses[0]: {name: education_x_occupation, of: [education, occupation], buckets: 10000, table: education_x_occupation} → none"}},
		{func(c *Config) { c.Crosses[0], c.Crosses[1] = c.Crosses[1], c.Crosses[0] }, []string{
			"crosses: in the order education_x_occupation, marital_status_x_occupation, age_x_education → marital_status_x_occupation, education_x_occupation, age_x_education"}},
		// The entries behind one that is gone are not all different.
		{func(c *Config) { c.Features = c.Features[1:]; c.Features[0].MinCount = 9 }, []string{
			"features[0].min_count: 1 → 9", "features[0]: {name: workclass, field: workclass, encode: vocabulary, min_count: 1, table: workclass, wide: true, deep: true} → none"}},
	} {
		now := was.Clone()
		x.change(now)
		if got := Diff(was, now); !slices.Equal(got, x.want) {
			t.Errorf("got  %q\nwant %q", got, x.want)
		}
	}
}
