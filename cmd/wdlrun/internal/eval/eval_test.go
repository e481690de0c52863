package eval

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/rank"
)

// TestBadRecordsArePermanent: a restart would read a faulty record again.
func TestBadRecordsArePermanent(t *testing.T) {
	bad := fmt.Errorf("span 2: %w", &record.Fault{File: "a.csv", Line: 3, Want: "is wrong"})
	lasts := (*rank.PermanentError)(nil)
	if err := withBadRecordHint(bad, "eval", "skip"); !errors.As(err, &lasts) || !strings.HasPrefix(err.Error(), "span 2: a.csv:3: is wrong; to skip: eval -max-bad N") {
		t.Error(err)
	}
	if err := withBadRecordHint(bad, "predict", "skip"); !strings.HasSuffix(err.Error(), "predict -set data.fields=[…]") {
		t.Error(err)
	}
	layout := &train.LayoutError{What: "b.csv looks like csv, but the configuration is for tsv", Settings: []string{"data.format=csv"}, Err: bad}
	if err := withBadRecordHint(layout, "eval", "skip"); err.Error() != "b.csv looks like csv, but the configuration is for tsv; add: eval -set data.format=csv (span 2: a.csv:3: is wrong)" {
		t.Error(err)
	}
	if other := errors.New("link: reset"); withBadRecordHint(other, "eval", "skip") != other {
		t.Error("another error is changed")
	}
}

// TestFewNames: a data set of many files is one short line.
func TestFewNames(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a b c": {"a", "b", "c"}, "a b c and 1 more file": {"a", "b", "c", "d"}, "a b c and 2 more files": {"a", "b", "c", "d", "e"}} {
		if got := fewNames(names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
