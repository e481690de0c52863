package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHeadingsStayDistinct: a cut heading shows the setting of a feature, and two never
// become equal.
func TestHeadingsStayDistinct(t *testing.T) {
	got := headings([]string{
		"model.kind", "features[dropoff_community_area].encode", "features[dropoff_community_area].buckets",
		"features[first_long_name_a_second_long_name].encode", "features[first_long_name_b_second_long_name].encode",
	})
	want := []string{
		"model.kind", "features[dropoff…ity_area].encode", "features[dropoff…ty_area].buckets",
		"features[first_long_name_a_second_long_name].encode", "features[first_long_name_b_second_long_name].encode",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSectionsOfKeys(t *testing.T) {
	if got, want := sections([]string{"train.seed", "features[x].encode", "train.epochs", "data"}), []string{"data", "features", "train"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnknownNamesTheMostFrequent: first the features with most unknown values, then the
// number of the others.
func TestUnknownNamesTheMostFrequent(t *testing.T) {
	counts := map[string]int64{"a": 1, "b": 3, "c": 3}
	for i := range mostUnknown - 1 {
		counts[fmt.Sprint("d", i)] = 2
	}
	var w strings.Builder
	unknown(&w, counts, 4, notTrained)
	want := "values that training has not seen: b 3 (75 %), c 3 (75 %), d0 2 (50 %), d1 2 (50 %), d2 2 (50 %), d3 2 (50 %), d4 2 (50 %), d5 2 (50 %), 2 more features\n"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}
