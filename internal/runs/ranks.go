package runs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// RankTimes is a line of metrics.jsonl with the times of ranks in the steps since the line
// of this kind before.
type RankTimes struct {
	Event  string      `json:"event"` // RankEvent
	Time   time.Time   `json:"time"`
	Step   int64       `json:"step"`
	Phases []string    `json:"phases"`
	Ranks  [][]float64 `json:"seconds"` // by rank and phase: seconds per step
}

// Limits of RankTimes.
const (
	MaxRanks     = 4096 // later ranks are left out
	maxPhases    = 32
	longestPhase = 32
	maxRankTimes = 1024 // lines; of more, some are left out
)

// Seconds returns the time of a rank per step.
func (t *RankTimes) Seconds(rank int) (sum float64) {
	for _, x := range t.Ranks[rank] {
		sum += x
	}
	return sum
}

// exchanges are the phases in which ranks wait for each other.
var exchanges = []string{"pull", "push", "sync"}

// Waiting returns by rank how much longer than the shortest it was in exchanges, in seconds
// per step. The rank that the others wait for is the shortest, so this is about the time
// that a rank waited.
func (t *RankTimes) Waiting() []float64 {
	all, least := make([]float64, len(t.Ranks)), math.Inf(1)
	for r, times := range t.Ranks {
		for i, x := range times {
			if slices.Contains(exchanges, t.Phases[i]) {
				all[r] += x
			}
		}
		least = min(least, all[r])
	}
	for r := range all {
		all[r] -= least
	}
	return all
}

func (t *RankTimes) validate() error {
	if len(t.Phases) > maxPhases || len(t.Ranks) > MaxRanks {
		return fmt.Errorf("%d phases of %d ranks: at most %d and %d are read", len(t.Phases), len(t.Ranks), maxPhases, MaxRanks)
	}
	for _, name := range t.Phases {
		if len(name) > longestPhase {
			return fmt.Errorf("%.32q… is no phase", name)
		}
	}
	for rank, x := range t.Ranks {
		if len(x) != len(t.Phases) {
			return fmt.Errorf("rank %d has %d times of %d phases", rank, len(x), len(t.Phases))
		}
	}
	return nil
}

// RankTimes reads the times of ranks in metrics.jsonl. A line that cannot be read is added
// to Faults. An older run has none.
func (r *Run) RankTimes() []RankTimes {
	f, err := regular.Open(filepath.Join(r.Dir, rundir.FileMetrics))
	if err != nil {
		r.fault(rundir.FileMetrics, err)
		return nil
	}
	defer f.Close()
	return r.scanRanks(io.LimitReader(f, maxMetrics))
}

func (r *Run) scanRanks(from io.Reader) []RankTimes {
	series, faults := Series[RankTimes]{Most: maxRankTimes}, 0
	lines := bufio.NewReaderSize(from, 1<<16)
	for n := 1; ; n++ {
		line, whole, err := readLine(lines)
		if err != nil {
			return series.Points()
		}
		if !isRankTimes(line) {
			continue
		}
		var t RankTimes
		if len(line) > maxLine {
			err = fmt.Errorf("it is longer than %d bytes", maxLine)
		} else if err = json.Unmarshal(line, &t); err == nil {
			err = t.validate()
		}
		if err == nil {
			series.Add(t)
		} else if faults++; whole && faults <= maxFaults {
			r.Faults = append(r.Faults, fmt.Sprintf("%s: line %d: %v", rundir.FileMetrics, n, err))
		}
	}
}
