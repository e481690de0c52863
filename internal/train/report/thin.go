package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
)

// Limits of files of lines, in bytes. A stream of one file a second would otherwise write tens of
// megabytes a day. See thin.
const (
	maxMetrics       = 3 << 20
	maxDistributions = 2 << 20
	fewLines         = 256 // lines of a kind that are always kept
)

// thin removes lines of a file until it has at most three quarters of limit bytes, and returns the
// size of the new file. It removes every second line of the kind with the most bytes, as often as
// needed, so older lines are further apart than newer ones. Kinds are the events train, valid and
// ranks, and in a file without events all lines. The first line of a kind, the last one and the
// evaluations with the best metrics are kept, and so are all lines of other events. If marked, the
// first line of the file counts the removed ones.
func thin(path string, limit int64, marked bool) (size int64, err error) {
	all, gone, err := readKinds(path)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		size += int64(len(k.line)) + 1
	}
	for size > limit/4*3 {
		kind := largest(all)
		if kind == "" {
			break
		}
		all = halve(all, kind, func(x kindOf) {
			size -= int64(len(x.line)) + 1
			gone.Lines, gone.Step = gone.Lines+1, max(gone.Step, x.Step)
		})
	}
	out, err := regular.Create(path+".new", 0o644)
	if err != nil {
		return 0, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	w := bufio.NewWriter(out)
	if marked {
		gone.Event, gone.Time = runs.ThinEvent, time.Now().UTC()
		line, err := json.Marshal(gone)
		if err != nil {
			return 0, err
		}
		w.Write(append(line, '\n'))
		size += int64(len(line)) + 1
	}
	for _, k := range all {
		w.Write(k.line)
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size, regular.Rename(out.Name(), path)
}

// kindOf is a line and what thin needs to know of it.
type kindOf struct {
	line []byte
	kind string // "": it is kept
	Step int64
	best bool // by a metric, of all evaluations
}

// readKinds reads the lines of a file. The line that counts removed ones is returned separately.
func readKinds(path string) (all []kindOf, gone runs.Thinned, err error) {
	b, err := regular.ReadFile(path, math.MaxInt64)
	if err != nil {
		return nil, gone, err
	}
	auc, loss := best{math.Inf(-1), -1}, best{math.Inf(-1), -1}
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var l struct {
			Event   string `json:"event"`
			Step    int64  `json:"step"`
			Metrics struct {
				AUC     *float64 `json:"auc"`
				LogLoss *float64 `json:"logloss"`
			} `json:"metrics"`
		}
		if json.Unmarshal(line, &l) != nil {
			continue // incomplete, or damaged
		}
		k := kindOf{line: line, Step: l.Step}
		switch l.Event {
		case runs.ThinEvent:
			if json.Unmarshal(line, &gone) != nil {
				gone = runs.Thinned{}
			}
			continue
		case "":
			k.kind = "line"
		case runs.Train, runs.Valid, runs.RankEvent:
			k.kind = l.Event
		}
		if x := l.Metrics.AUC; x != nil {
			auc.add(*x, len(all))
		}
		if x := l.Metrics.LogLoss; x != nil {
			loss.add(-*x, len(all))
		}
		all = append(all, k)
	}
	for _, b := range []best{auc, loss} {
		if b.line >= 0 {
			all[b.line].best = true
		}
	}
	return all, gone, nil
}

// best is the line with the largest value.
type best struct {
	value float64
	line  int // -1: none
}

func (b *best) add(value float64, line int) {
	if value > b.value {
		b.value, b.line = value, line
	}
}

// largest returns the kind whose lines have the most bytes, of the kinds with enough lines; "" if
// there is none.
func largest(all []kindOf) (kind string) {
	bytes, lines := map[string]int{}, map[string]int{}
	for _, k := range all {
		bytes[k.kind] += len(k.line)
		if !k.best {
			lines[k.kind]++
		}
	}
	for k, n := range bytes {
		if k != "" && lines[k] > fewLines && (kind == "" || n > bytes[kind] || n == bytes[kind] && k < kind) {
			kind = k
		}
	}
	return kind
}

// halve removes every second line of a kind that is not best.
func halve(all []kindOf, kind string, removed func(kindOf)) []kindOf {
	left := 0
	for _, k := range all {
		if k.kind == kind && !k.best {
			left++
		}
	}
	n, kept := 0, all[:0]
	for _, k := range all {
		if k.kind == kind && !k.best {
			if n++; n%2 == 0 && n < left {
				removed(k)
				continue
			}
		}
		kept = append(kept, k)
	}
	return kept
}
