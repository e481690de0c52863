package runs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// maxDistributions is the maximum number of evaluations that Distributions returns.
const maxDistributions = 256

// Distributions reads the histograms and curves that the evaluations of a run left. Of
// many evaluations, some are left out. A line that cannot be read is added to Faults. An
// older run has none.
func (r *Run) Distributions() []metrics.Distributions {
	f, err := regular.Open(filepath.Join(r.Dir, rundir.FileDistributions))
	if err != nil {
		r.fault(rundir.FileDistributions, err)
		return nil
	}
	defer f.Close()
	series := Series[metrics.Distributions]{Most: maxDistributions}
	lines := bufio.NewReaderSize(io.LimitReader(f, maxMetrics), 1<<16)
	for n := 1; ; n++ {
		line, whole, err := readLine(lines)
		if err != nil {
			return series.Points()
		}
		var d metrics.Distributions
		if len(line) > maxLine {
			err = fmt.Errorf("it is longer than %d bytes", maxLine)
		} else if err = json.Unmarshal(line, &d); err == nil {
			err = d.Validate()
		}
		switch {
		case err == nil:
			series.Add(d)
		case whole && len(r.Faults) < maxDistributions:
			r.Faults = append(r.Faults, fmt.Sprintf("%s: line %d: %v", rundir.FileDistributions, n, err))
		}
	}
}
