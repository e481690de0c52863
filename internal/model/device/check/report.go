//go:build gpu

package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
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
	Advice  = "advice" // a setting should be changed
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
	Running   string               `json:"running,omitempty"` // the check that has begun last, in a report that is not complete
	Next      []string             `json:"next"`              // what to do, the most important first
	ExitCode  int                  `json:"exit_code"`
}

// Result is the result of one check.
type Result struct {
	Name    string             `json:"check"`
	On      string             `json:"device"` // "" for all
	Outcome string             `json:"outcome"`
	Seconds float64            `json:"seconds"`
	Text    string             `json:"text"`
	Detail  string             `json:"detail,omitempty"` // further errors
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
	fmt.Fprintf(w, "wdlrun %s on %s, %s, CUDA %s\n", r.Program, r.Host, r.Time.Format(time.RFC3339), cmp.Or(r.CUDA, "unknown"))
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
	for _, x := range r.Results {
		if x.Detail != "" {
			fmt.Fprintf(w, "%s, %s, further errors: %s\n", x.Name, x.on(), strings.ReplaceAll(x.Detail, "\n", "\n  "))
		}
	}
	fmt.Fprintf(w, "%d checks passed, %d failed, %d were skipped\n", r.Count(Passed), r.Count(Failed), r.Count(Skipped))
	if r.Running != "" {
		_, err := fmt.Fprintf(w, "This report is not complete: the program ended during the check %s.\n", r.Running)
		return err
	}
	fmt.Fprintln(w, "\nNext:")
	for i, text := range r.Next {
		fmt.Fprintf(w, "%d. %s\n", i+1, text)
	}
	return nil
}

// remedies are what to do after a failed check.
var remedies = map[string]string{
	"libraries":      "Do what the check `libraries` names, and run gpu-check again.",
	"open":           "Leave the device that cannot be opened out of CUDA_VISIBLE_DEVICES, or end the processes that use it, and run gpu-check again.",
	"kernels":        "Do not train on this device: it computes other bits than the CPU. Use -device cpu until the cause is known.",
	"collectives":    "Run gpu-check again with NCCL_DEBUG=INFO, then with NCCL_P2P_DISABLE=1 and with NCCL_SHM_DISABLE=1. Train with -collective host until one of them helps.",
	"NCCL bandwidth": "Run gpu-check again with NCCL_DEBUG=INFO. Train with -collective host.",
	"memory":         "Search the kernel's log for messages of the driver (dmesg | grep Xid). Leave the device out of CUDA_VISIBLE_DEVICES.",
	"parity":         "Do not train on this device. Unset NVIDIA_TF32_OVERRIDE if it is set, and run gpu-check again.",
	"PyTorch":        "Run gpu-check again with another version of PyTorch. If it fails again, do not train on this device.",
	"abort":          "Train with -collective host: if a rank is lost, the others would not end.",
	"close":          "Search the kernel's log for messages of the driver (dmesg | grep Xid).",
}

// next returns three things to do. The last is to send the report, which is in a file or "".
func (r Report) next(file string) (all []string) {
	add := func(text string) {
		if len(all) < 2 && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, x := range r.Results {
		switch {
		case x.Outcome == Failed:
			add(remedies[x.Name])
		case x.Outcome == Advice:
			add("Change the settings that the check `" + x.Name + "` lists.")
		}
	}
	for _, x := range r.Results {
		if x.Outcome == Skipped && x.Name != "PyTorch" && r.Count(Failed) > 0 {
			add("Make the check `" + x.Name + "` possible (" + x.Text + ").")
		}
	}
	if r.Count(Failed) == 0 {
		add("Train with your configuration on the CPU and on the GPU (wdlrun train -config FILE -device cpu, then gpu), and compare the log-loss.")
		add("Measure a step on the CPU and on the GPU (wdlrun bench step -device cpu, then gpu).")
	}
	add("Run gpu-check again: a failure that does not repeat has another cause than one that does.")
	if file == "" {
		return append(all, "Give -report DIR, and send the file that it writes.")
	}
	return append(all, "Send "+file+".")
}
