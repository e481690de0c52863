package join

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// reopenEnded lets a join that has ended read what came since. All that was decided stays: its
// impressions are closed, and one that is not later than the last sample is late, since it may be one
// of them.
func (j *joiner) reopenEnded() error {
	if j.samples.topic == nil {
		mark := filepath.Join(j.Out, schema.Follow{On: true}.Filled().Mark)
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for i := range j.Positions {
		j.Positions[i].Ended = ""
	}
	for i := range j.machine.sources {
		j.machine.sources[i].Ended = false
	}
	if j.machine.watermark == Always {
		j.machine.watermark = Never
		if j.Newest != Never {
			j.machine.watermark = j.Newest + 1
		}
	}
	return nil
}

// remark names what a join that has ended may be missing. nothing reports that an earlier run had ended,
// too, and nothing came since.
func (j *joiner) remark(nothing bool) {
	if nothing {
		line := "an earlier run has ended this join, and its inputs have nothing new"
		if j.Follow {
			line += "; to continue, remove _SUCCESS from them"
		}
		j.Warn(line)
	}
	switch {
	case j.Counts.Impressions > 0 && j.Counts.Feedback == 0:
		j.Warn(fmt.Sprintf("feedback %s has no usable records: all samples are negative", strings.Join(j.Feedback, ", ")))
	case j.Counts.Impressions == 0:
		j.Warn(fmt.Sprintf("impressions %s have no usable records: there are no samples", strings.Join(j.Impressions, ", ")))
	}
}

// unused reports whether a state can be begun again without a loss: it has no samples, and no records of
// one side.
func (j *joiner) unused() bool {
	return j.Samples == 0 && (j.Counts.Impressions == 0 || j.Counts.Feedback == 0)
}

// forget removes the files of the state.
func (j *joiner) forget() error {
	j.log.close()
	j.log = nil
	for _, pattern := range []string{segmentPrefix + "*", "spans-*.jsonl", StatusFile, filepath.Join("rejected", "*"+outputSuffix+"*")} {
		names, err := filepath.Glob(filepath.Join(globText(j.State), pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// globText returns a pattern that matches a path only.
func globText(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
