package walk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Plan is what a model is trained on next, and what it is not trained on.
type Plan struct {
	Next  []Partition // in order; those that are named again come first
	Again int         // number of these
	Late  []Late      // partitions that changed after the model was trained on them
	Older []string    // days before the newest of the model on which it was not trained
	named []string    // those of Older that have been named before, and have not changed since
	Known int         // partitions that have not changed since the model was trained on them, or could not be

	Newest  string   // day of the model; "": it has none
	Missing []string // dates between the partitions of the model and the next, the first few
	lacks   int
	done    int // partitions of again that are left out
	p       *Parts
}

// Late is a partition that changed after the model was trained on it.
type Late struct {
	Partition
	Was rundir.Day
}

// maxListed is the number of partitions that a line names.
const maxListed = 8

// NewPlan decides which partitions a model with a ledger is trained on next: those that are newer
// than its newest, and those of again.
//
// Partitions that have been trained on by the same again since they changed are left out, because an
// interrupted command continues, unless nothing else is to be done.
func (p *Parts) NewPlan(done *rundir.Days, again []string) (pl Plan, err error) {
	pl.p = p
	var newest *Partition // of the ledger
	for i := range done.Days {
		at, ok := p.order.at(done.Days[i].Day)
		if !ok && len(p.All) > 0 {
			return pl, fmt.Errorf("-by %s: the model was trained on %s, which is not a value like %s: give data.train with the folders of before, or another -out", p.By, p.Name(done.Days[i].Day), p.Name(p.All[0].Day))
		}
		if newest == nil || at >= newest.at {
			pl.Newest, newest = done.Days[i].Day, &Partition{Day: done.Days[i].Day, at: at}
		}
	}
	var named []Partition
	for _, day := range again {
		i := slices.IndexFunc(p.All, func(q Partition) bool { return q.Day == day || p.Name(q.Day) == day })
		if i < 0 {
			return pl, fmt.Errorf("-again %s: data.train has no such partition: %s", day, p.few(p.All))
		}
		named = append(named, p.All[i])
	}
	slices.SortFunc(named, func(a, b Partition) int { return cmp.Compare(a.at, b.at) })
	named = slices.CompactFunc(named, func(a, b Partition) bool { return a.at == b.at })
	var fresh []Partition
	for _, part := range p.All {
		was, changed := done.Last(part.Day), false
		if was != nil {
			if changed, err = part.changed(was); err != nil {
				return pl, err
			}
		}
		switch {
		case slices.ContainsFunc(named, func(q Partition) bool { return q.at == part.at }):
		case changed:
			pl.Late = append(pl.Late, Late{part, *was})
		case was != nil:
			pl.Known++
		case newest != nil && part.at < newest.at && done.Skips(part.Day, part.Mark):
			pl.Known++
		case newest != nil && part.at < newest.at:
			pl.Older = append(pl.Older, part.Day)
			if slices.ContainsFunc(done.Older, func(o rundir.Day) bool { return o.Day == part.Day && o.Mark == part.Mark }) {
				pl.named = append(pl.named, part.Day)
			}
		default:
			fresh = append(fresh, part)
		}
	}
	pl.Next = slices.DeleteFunc(slices.Clone(named), func(part Partition) bool {
		was := done.Last(part.Day)
		return was != nil && was.Again == strings.Join(again, ",") && was.Mark == part.Mark
	})
	if len(pl.Next) == 0 && len(fresh) == 0 {
		pl.Next = named
	}
	pl.Again, pl.done = len(pl.Next), len(named)-len(pl.Next)
	pl.Next = append(pl.Next, fresh...)
	before := newest
	for i := range p.All { // also those of again, which are there
		part := &p.All[i]
		if before != nil && part.at <= before.at {
			continue
		}
		if before != nil {
			some, n := p.order.between(before.Day, part.Day, maxListed-min(maxListed, len(pl.Missing)))
			pl.Missing, pl.lacks = append(pl.Missing, some...), pl.lacks+n
		}
		before = part
	}
	return pl, nil
}

// few names partitions, a few of them.
func (p *Parts) few(all []Partition) string {
	days := make([]string, len(all))
	for i := range all {
		days[i] = all[i].Day
	}
	return p.fewDays(days, len(days))
}

// fewDays names the first of n days.
func (p *Parts) fewDays(days []string, n int) string {
	names := make([]string, min(len(days), maxListed))
	for i := range names {
		names[i] = p.Name(days[i])
	}
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Lines describes what the model is not trained on, and why. late returns how many rows a
// partition has more than when the model was trained on it; false: unknown. Partitions that changed or are older
// than the model are left out if they have been named before, unless all is set.
func (pl *Plan) Lines(late func(*Late) (int64, bool), all bool) (lines []string) {
	p := pl.p
	lines = append(lines, p.Notes...)
	if pl.done > 0 {
		lines = append(lines, fmt.Sprintf("%s of -again left out: an earlier command with the same -again has trained on them, and they have not changed", plural.Of(pl.done, "partition")))
	}
	if pl.lacks > 0 {
		lines = append(lines, "missing: "+p.fewDays(pl.Missing, pl.lacks))
	}
	older := slices.DeleteFunc(slices.Clone(pl.Older), func(day string) bool { return !all && slices.Contains(pl.named, day) })
	if n := len(older); n > 0 {
		lines = append(lines, fmt.Sprintf("older than the model and not trained on: %s; to train on %s: -again %s", p.fewDays(older, n), it(n), strings.Join(older[:min(n, maxListed)], ",")))
	}
	unnamed := slices.DeleteFunc(slices.Clone(pl.Late), func(l Late) bool { return !all && l.Was.Named == l.state() })
	for i := range unnamed[:min(len(unnamed), maxListed)] {
		l := &unnamed[i]
		what := "its files have changed"
		if n, ok := late(l); ok && n > 0 {
			what = fmt.Sprintf("%s arrived", plural.Of(int(n), "row"))
		} else if ok && n < 0 {
			what = fmt.Sprintf("it has %s fewer", plural.Of(int(-n), "row"))
		}
		lines = append(lines, fmt.Sprintf("late: %s: %s after the training on it; to train on all of it again: -again %s", p.Name(l.Day), what, l.Day))
	}
	if n := len(unnamed) - maxListed; n > 0 {
		lines = append(lines, fmt.Sprintf("late: %s more changed after the training on them", plural.Of(n, "partition")))
	}
	return lines
}

// Named notes in a ledger that the partitions that changed or are older than the model have been named, and
// reports whether the ledger has changed. Lines leaves them out until they change again.
func (pl *Plan) Named(done *rundir.Days) (changed bool) {
	if changed = len(pl.Older) != len(pl.named) || len(pl.Older) != len(done.Older); changed {
		done.Older = nil
		for _, part := range pl.p.All {
			if slices.Contains(pl.Older, part.Day) {
				done.Older = append(done.Older, rundir.Day{Day: part.Day, Mark: part.Mark})
			}
		}
	}
	for i := range pl.Late {
		was, state := done.Last(pl.Late[i].Day), pl.Late[i].state()
		changed = changed || was.Named != state
		was.Named = state
	}
	return changed
}

// it returns the pronoun of n things.
func it(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// Rows returns how many rows more a window has than when the model was trained on it; false for
// folders, whose rows must be counted.
func (l *Late) Rows() (int64, bool) {
	now, ok := rowsOf(l.Mark)
	was, same := rowsOf(l.Was.Mark)
	return now - was, ok && same
}

// Name returns a partition as messages name it.
func (pl *Plan) Name(day string) string { return pl.p.Name(day) }
