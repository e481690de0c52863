package report

import (
	"fmt"
	"io"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
)

// Write reads run directories and writes the page. now is the date on the page.
func Write(w io.Writer, dirs []string, now time.Time) error {
	if len(dirs) == 0 || len(dirs) > MaxRuns {
		return fmt.Errorf("report: %d run directories: give 1 to %d", len(dirs), MaxRuns)
	}
	v := pageView{Made: now.Format("2006-01-02 15:04"), Several: len(dirs) > 1}
	var all []*runs.Summary
	for i, dir := range dirs {
		r, err := runs.Read(dir)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		all = append(all, &r.Summary)
		v.Runs = append(v.Runs, view(r, i))
	}
	v.Title = "wdlrun: " + all[0].Name
	if v.Several {
		v.Title = fmt.Sprintf("wdlrun: %d runs", len(all))
		v.Differ = runs.Differing(all)
		n := min(len(v.Differ), maxDiffering)
		v.Differ, v.Follow = v.Differ[:n], v.Differ[n:]
	}
	v.Warnings = warnings(v.Runs)
	v.Verdict = verdict(v.Runs, v.Warnings)
	v.Charts = charts(v.Runs)
	return pages().ExecuteTemplate(w, "page.html", v)
}
