package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
)

// titleStart begins the titles of all pages.
const titleStart = "wdlrun: "

// Replaceable returns an error if a file is no page of this package, so that it is not overwritten. A missing or an
// empty file, and a page, may be.
func Replaceable(path string) error {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	const head = 1 << 10 // holds the title
	b, err := io.ReadAll(io.LimitReader(f, head))
	if err == nil && len(b) > 0 && !(bytes.HasPrefix(b, []byte("<!DOCTYPE html>")) && bytes.Contains(b, []byte("<title>"+titleStart))) {
		err = fmt.Errorf("%s exists and is no report of wdlrun; remove it first or choose another name", path)
	}
	return err
}

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
	v.Title = titleStart + all[0].Name
	if v.Several {
		v.Title = fmt.Sprintf(titleStart+"%d runs", len(all))
		v.Differ = runs.Differing(all)
		n := min(len(v.Differ), maxDiffering)
		v.Differ, v.Follow = v.Differ[:n], v.Differ[n:]
	}
	v.Warnings = warnings(v.Runs)
	v.Verdict = verdict(v.Runs, v.Warnings)
	v.Charts = charts(v.Runs)
	return pages().ExecuteTemplate(w, "page.html", v)
}
