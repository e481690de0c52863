//go:build gpu

package check

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
)

// The outcomes of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Report contains the results of all checks.
type Report struct {
	Program   string               `json:"program"` // version of wdlrun
	Host      string               `json:"host"`
	Time      time.Time            `json:"time"`
	CUDA      string               `json:"cuda"` // the latest version that the driver supports
	Libraries []libraries.Library  `json:"libraries"`
	Inventory *inventory.Inventory `json:"inventory"` // null: NVML does not report it
	Results   []Result             `json:"checks"`
	ExitCode  int                  `json:"exit_code"`
}

// Result is the result of one check.
type Result struct {
	Name    string             `json:"check"`
	On      string             `json:"device"` // "" for all
	Outcome string             `json:"outcome"`
	Seconds float64            `json:"seconds"`
	Text    string             `json:"text"`
	Values  map[string]float64 `json:"values,omitempty"` // measurements
}

// on names the devices.
func (x Result) on() string { return cmp.Or(x.On, "all devices") }

func (x Result) String() string {
	return fmt.Sprintf("%s: %s, %s: %s", x.Outcome, x.Name, x.on(), x.Text)
}

// Count returns the number of checks with an outcome.
func (r Report) Count(outcome string) (n int) {
	for _, x := range r.Results {
		if x.Outcome == outcome {
			n++
		}
	}
	return n
}

// Write prints the report for a reader.
func Write(w io.Writer, r Report) error {
	fmt.Fprintf(w, "wdlrun %s on %s, %s, CUDA %s\n", r.Program, r.Host, r.Time.Format(time.RFC3339), r.CUDA)
	if err := libraries.Write(w, r.Libraries); err != nil {
		return err
	}
	if r.Inventory != nil {
		if err := inventory.Write(w, *r.Inventory); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", x.Outcome, x.on(), x.Name, x.Text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d checks passed, %d failed, %d were skipped\n", r.Count(Passed), r.Count(Failed), r.Count(Skipped))
	return err
}
