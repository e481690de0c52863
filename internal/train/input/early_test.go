package input

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/trace"
)

// surveyed surveys data on some ranks. It returns what each rank has scanned early, and the digest
// and rows of the test data.
func surveyed(t *testing.T, ranks int, test string) (early []int, digests []string, errs []error) {
	t.Helper()
	early, digests, errs = make([]int, ranks), make([]string, ranks), make([]error, ranks)
	train := datatest.Write(t, "train.csv", string(datatest.Numbered(t, "csv", 0, 60)))
	errs[0] = mem.Run(ranks, 1, func(comm *collective.Comm) error {
		c := ofFormat("csv", train)
		c.Data.Test = []string{test}
		in, err := Open(Setup{Rank: shared.Rank{Comm: comm, Rec: trace.New(comm.Rank())}, Config: c, Shown: new(report.Status)})
		if err != nil {
			return err
		}
		if err := in.Survey(context.Background(), nil); err != nil {
			return err
		}
		early[comm.Rank()] = len(in.early)
		if errs[comm.Rank()] = in.SurveyOthers(context.Background()); errs[comm.Rank()] == nil {
			digests[comm.Rank()] = fmt.Sprintf("%016x, %d rows", in.Test.Fingerprint(), in.Test.Rows(data.All))
		}
		if len(in.early) > 0 {
			return errors.New("early counts are left")
		}
		return nil
	})
	return early, digests, errs
}

// TestIdleRanksScanOtherData: the only block of the training data is scanned by the last rank, the
// test data by the first one at the same time. The results are those of one rank, as are faults.
func TestIdleRanksScanOtherData(t *testing.T) {
	test := datatest.Write(t, "test.csv", string(datatest.Numbered(t, "csv", 60, 90)))
	_, one, errs := surveyed(t, 1, test)
	fatal.If(t, errs[0])
	early, three, errs := surveyed(t, 3, test)
	for r := range three {
		if fatal.If(t, errs[r]); three[r] != one[0] {
			t.Errorf("rank %d has %s, one rank %s", r, three[r], one[0])
		}
	}
	if !reflect.DeepEqual(early, []int{1, 1, 0}) {
		t.Errorf("datasets scanned early: %v", early)
	}
	faulty := datatest.Write(t, "test.csv", string(datatest.Numbered(t, "csv", 60, 90))+"no,record\n")
	_, _, errs = surveyed(t, 3, faulty)
	if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "test.csv") {
		t.Errorf("a fault of the test data: %v", err)
	}
}
