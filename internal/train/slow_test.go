package train

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestASlowRankIsReported: a slow rank is reported while a job runs, whether or not its steps
// wait. On a busy machine the reported cause may correctly be the host. Steps take
// microseconds, so a rank must be at least 100 times slower to be reported.
func TestASlowRankIsReported(t *testing.T) {
	patient.Long(t)
	path := traintest.Clicks(t, 4000)
	for name, how := range map[string]step.Tolerance{"wait": {}, "drop": {Mode: slots.Drop, Backup: 1}} {
		t.Run(name, func(t *testing.T) {
			if name != "drop" {
				everyday(t)
			}
			t.Parallel()
			slow, err := chaos.Parse("slow:20x@0,slow:20x@2,slow:1200x@1") // sleeping ranks do not use the cores
			fatal.If(t, err)
			told := make([]string, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patient.Longest)
			defer cancel()
			traintest.OnRanks(t, 3, func(comm *collective.Comm) error {
				var j *Job
				j = NewJob(comm, trace.New(0), Options{
					Config: traintest.ClicksConfig(t, path, "", ""), Set: []string{"train.epochs=1000000", "train.checkpoint.every_steps=100000"}, Out: t.TempDir(),
					Tolerance: how, Chaos: slow, Peers: Peers{Hosts: []string{"a", "b", "c"}},
					Say: func(line string) {
						if strings.HasPrefix(line, "rank 1 ") && strings.Contains(line, "slower") {
							told[0] = line
							j.RequestStop()
						}
					},
				})
				res, err := j.Run(ctx)
				if err == nil && !slices.ContainsFunc(res.SlowRanks, func(s report.SlowRank) bool { return s.Rank == 1 && s.Cause != "input" }) {
					t.Errorf("%+v", res.SlowRanks)
				}
				return err
			})
			if !strings.HasPrefix(told[0], "rank 1 on host b is ") || !strings.Contains(told[0], "× slower in compute than the median of the ranks") {
				t.Errorf("reported %q", told[0])
			}
		})
	}
}
