package walk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// windowLayout is the form of the begin of a window.
const windowLayout = "2006-01-02T15:04Z"

const (
	lookRecords = 10_000 // from which the format of the times is found
	maxWindows  = 100_000
)

// windows counts the records of each window, by file.
func (p *Parts) windows(ctx context.Context, src schema.Source, now int64) error {
	format, err := p.formatOf(ctx, src)
	if err != nil {
		return err
	}
	files, err := record.OpenFiles(src, src.Train)
	if err != nil {
		return err
	}
	rows, in := map[int64]int64{}, map[int64][]string{} // by begin
	none, width := int64(0), int64(p.Width/time.Second)
	var text []byte
	for _, name := range files.Names() {
		own, one := map[int64]int64{}, files
		if len(files.Names()) > 1 {
			if one, err = record.OpenFiles(src, []string{name}); err != nil {
				return err
			}
		}
		if _, err := one.Walk(ctx, []string{p.Field}, 0, func(lists []value.List) error {
			ok := lists[0].Len() == 1
			var at int64
			if ok {
				text = lists[0].Append(text[:0], 0)
				at, ok = format.Seconds(text)
			}
			if !ok {
				none++
				return nil
			}
			at -= (at%width + width) % width
			if own[at]++; len(own) > maxWindows {
				return fmt.Errorf("-by %s: there are more than %d windows: choose a greater width", p.By, maxWindows)
			}
			return nil
		}, nil); err != nil {
			return err
		}
		for at, n := range own {
			rows[at] += n
			in[at] = append(in[at], name)
		}
	}
	if none > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s without a time in field %s: not trained on", plural.Of(int(none), "record"), p.Field))
	}
	for at, n := range rows {
		begin := time.Unix(at, 0).UTC().Format(windowLayout)
		if at+width > now {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is not over: its %s are trained on after %s", begin, plural.Of(int(n), "row"), time.Unix(at+width, 0).UTC().Format(windowLayout)))
			continue
		}
		part := Partition{Day: begin, Mark: fmt.Sprintf(rowsMark, n), Train: in[at],
			Where: fmt.Sprintf("seconds(`%s`, %s) >= %d and seconds(`%s`, %s) < %d", p.Field, quote(format.String()), at, p.Field, quote(format.String()), at+width)}
		if len(part.Train) > maxNames {
			part.Train = src.Train
		}
		p.All = append(p.All, part)
	}
	slices.Sort(p.Notes)
	return nil
}

// rowsMark is the mark of a window.
const rowsMark = "%d rows"

// rowsOf returns the rows in the mark of a window; false for folders.
func rowsOf(mark string) (n int64, ok bool) {
	_, err := fmt.Sscanf(mark, rowsMark, &n)
	return n, err == nil && strings.HasSuffix(mark, " rows")
}

// quote returns a text of an expression.
func quote(s string) string {
	if strings.Contains(s, "'") {
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// formatOf finds the format of the times: the one that reads most of the first values.
func (p *Parts) formatOf(ctx context.Context, src schema.Source) (f date.Format, err error) {
	files, err := record.OpenFiles(src, src.Train)
	if err != nil {
		return f, err
	}
	tally, err := date.NewTally("")
	if err != nil {
		return f, err
	}
	n := 0
	var text []byte
	if _, err = files.Walk(ctx, []string{p.Field}, 0, func(lists []value.List) error {
		if lists[0].Len() > 0 {
			text = lists[0].Append(text[:0], 0)
			tally.Add(text, nil)
		}
		if n++; n >= lookRecords {
			return record.Stop
		}
		return nil
	}, nil); err != nil {
		return f, err
	}
	f, best, ok := tally.Best()
	if !ok || 2*tally.Read[best] <= tally.Values {
		return f, fmt.Errorf("-by %s: most values of field %s, such as %q, are neither ISO dates nor Unix times", p.By, p.Field, text)
	}
	return f, nil
}
