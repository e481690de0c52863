package walk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Partition is a part of the training data.
type Partition struct {
	Day   string   // value of the partition columns, joined by slashes, or the begin of a window
	End   int64    // end of its event time, Unix seconds; 0: it is no date
	Train []string // data.train of it; nil: its files have no bytes
	Empty []string // other files, which have no bytes
	Where string   // condition of its records; "": all of its files
	Mark  string   // identity of its files, or of its rows

	at    int64         // place in the order
	files []record.File // nil: a window
}

// Begin returns the begin of the event time of a partition whose End is not 0, in Unix seconds.
func (p *Partition) Begin() int64 { return p.at }

// Bytes returns the bytes of the files of a partition that are local; 0 for a window.
func (p *Partition) Bytes() (n int64) {
	for i := range p.files {
		n += p.files[i].Bytes
	}
	return n
}

// Stamp returns the identities of the times and the bytes of a partition's files, which it reads; "" if
// they are not all local.
func (p *Partition) Stamp() (times, content string, err error) {
	if p.files == nil {
		return "", "", nil
	}
	if times = record.Times(p.files); times != "" {
		content, err = record.Hash(p.files)
	}
	return times, content, err
}

// changed reports whether a partition is no longer the one that a model was trained on. Its bytes are
// read only if the times of its files have changed.
func (p *Partition) changed(was *rundir.Day) (bool, error) {
	if was.Mark != p.Mark || was.Content == "" || p.files == nil {
		return was.Mark != "" && was.Mark != p.Mark, nil
	}
	if times := record.Times(p.files); times == "" || times == was.Times {
		return false, nil
	}
	now, err := record.Hash(p.files)
	return now != was.Content, err
}

// state identifies the files of a partition by names, sizes and times.
func (p *Partition) state() string {
	if p.files == nil {
		return p.Mark
	}
	return p.Mark + " " + record.Times(p.files)
}

// Parts are the partitions of files, in order.
type Parts struct {
	By
	order order
	All   []Partition
	Notes []string // what is not in a partition, one line each
}

// maxNames limits the names of a partition's files in a configuration.
const maxNames = 4096

// List lists the partitions of the training data of a source.
func List(ctx context.Context, src schema.Source, by By, now int64) (p *Parts, err error) {
	p = &Parts{By: by}
	if by.Columns == nil {
		err = p.windows(ctx, src, now)
	} else {
		err = p.folders(src.Train)
	}
	if err != nil {
		return nil, err
	}
	values := make([]string, len(p.All))
	for i := range p.All {
		values[i] = p.All[i].Day
	}
	if len(values) == 0 {
		return p, nil
	}
	if p.order, err = by.orderOf(values); err != nil {
		return nil, err
	}
	for i := range p.All {
		p.All[i].at, _ = p.order.at(p.All[i].Day)
		p.All[i].End = p.order.end(p.All[i].Day)
	}
	slices.SortFunc(p.All, func(a, b Partition) int { return cmp.Compare(a.at, b.at) })
	for i := range p.All {
		if i > 0 && p.All[i].at == p.All[i-1].at {
			return nil, fmt.Errorf("%s and %s are the same partition: rename one of the folders", by.Name(p.All[i-1].Day), by.Name(p.All[i].Day))
		}
	}
	return p, nil
}

// folders groups files by the values of partition columns.
func (p *Parts) folders(patterns []string) error {
	at := map[string]int{}
	marks := map[string][]string{}
	outside, lacking := 0, ""
	var empty []record.File
	seen := map[string]bool{}
	for _, pattern := range patterns {
		files, none, err := record.ResolveAll([]string{pattern})
		if err != nil && len(none) == 0 {
			return err
		}
		empty = append(empty, none...)
		for i := range files {
			if seen[files[i].Name] {
				return fmt.Errorf("%s is named twice in data.train, its records would count twice: remove one", files[i].Name)
			}
			seen[files[i].Name] = true
			day, missing := p.DayOf(&files[i])
			if day == "" {
				if outside++; lacking == "" {
					lacking = missing
				}
				continue
			}
			if _, has := at[day]; !has {
				at[day] = len(p.All)
				p.All = append(p.All, Partition{Day: day})
			}
			part := &p.All[at[day]]
			if name := p.narrowed(pattern, files[i].Name); !slices.Contains(part.Train[max(0, len(part.Train)-1):], name) {
				part.Train = append(part.Train, name)
			}
			part.files = append(part.files, files[i])
			marks[day] = append(marks[day], fmt.Sprintf("%s %d", files[i].Name, files[i].Bytes))
		}
	}
	p.addEmpty(empty, at, marks)
	if len(p.All) == 0 {
		return fmt.Errorf("-by %s: no file of data.train is in a folder %s=VALUE", p.By, lacking)
	}
	if outside > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s without a value of %s: not trained on", plural.Of(outside, "file"), lacking))
	}
	for i := range p.All {
		part := &p.All[i]
		slices.Sort(part.Train)
		part.Train = slices.Compact(part.Train)
		if len(part.Train) > maxNames {
			return fmt.Errorf("%s has %d files, and at most %d can be named: write data.train as a glob with a part %s=*", p.Name(part.Day), len(part.Train), maxNames, p.Columns[0])
		}
		slices.Sort(marks[part.Day])
		part.Mark = fmt.Sprintf("%d files %016x", len(marks[part.Day]), xxh3.HashString(strings.Join(marks[part.Day], "\n")))
	}
	return nil
}

// addEmpty adds files without bytes to the partitions, whose places are in at.
func (p *Parts) addEmpty(empty []record.File, at map[string]int, marks map[string][]string) {
	for i := range empty {
		day, _ := p.DayOf(&empty[i])
		j, has := at[day]
		if !has && day != "" {
			j, at[day] = len(p.All), len(p.All)
			p.All = append(p.All, Partition{Day: day})
		}
		switch {
		case day != "" && p.All[j].Train == nil:
			marks[day] = append(marks[day], empty[i].Name)
		case day != "" && !slices.ContainsFunc(p.All[j].Train, func(name string) bool { return strings.ContainsAny(name, "*?[") }): // a pattern finds it in the training
			p.All[j].Empty = append(p.All[j].Empty, empty[i].Name)
		}
	}
}

// Lack describes columns of a partition, if its files have a header or typed columns.
type Lack struct {
	Names []string // those that no file of it has, and files of another partition have
	From  string   // the last such partition
	New   []string // those that From does not have: Names may be renamed
}

// Lacks returns which of some fields no file of a partition has and files of another partition
// have.
func (p *Parts) Lacks(src schema.Source, part *Partition, fields []string) (l Lack, err error) {
	own, err := columns(src, part)
	unknown := without(fields, own)
	for i := len(p.All) - 1; i >= 0 && len(unknown) > 0 && own != nil && err == nil; i-- {
		if p.All[i].Train == nil {
			continue
		}
		var others []string
		others, err = columns(src, &p.All[i])
		still := without(unknown, others)
		if len(still) == len(unknown) {
			continue
		}
		if l.From == "" {
			l.From, l.New = p.All[i].Day, without(own, others)
		}
		l.Names = append(l.Names, without(unknown, still)...)
		unknown = still
	}
	return l, err
}

// columns returns the columns that files of a partition have; nil if they have neither a header nor typed
// columns.
func columns(src schema.Source, part *Partition) ([]string, error) {
	set, err := record.OpenSet(src, part.Train)
	if err != nil || !set.MayLack() {
		return nil, err
	}
	return set.Fields, nil
}

// without returns those of some names that are not in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
}

// HasRows reports whether a partition has a record. It reports true if its files cannot be read: the training
// names the fault.
func (p *Parts) HasRows(ctx context.Context, src schema.Source, part *Partition) bool {
	if part.Train == nil {
		return false
	}
	files, err := record.OpenFiles(src, part.Train)
	if err != nil {
		return !errors.Is(err, record.ErrNoLine)
	}
	found := false
	w, err := files.Walk(ctx, nil, 0, func([]value.List) error { found = true; return record.Stop }, nil)
	return found || err != nil || w.Bad > 0
}

// DayOf returns the values of the partition columns of a file; "" and the first column that it
// lacks.
func (b By) DayOf(f *record.File) (day, missing string) {
	values := make([]string, len(b.Columns))
	for i, name := range b.Columns {
		v, ok := f.Partition(name)
		if !ok {
			return "", name
		}
		values[i] = v
	}
	return strings.Join(values, "/"), ""
}

// narrowed returns a pattern that, of the files of a given pattern, only stands for files in the
// folders of the partition columns of a file: clicks/dt=*/*.csv becomes clicks/dt=2026-11-22/*.csv,
// so that hosts with other files (data.hosts: each) find theirs. If the pattern names no such
// folders, it is the name of the file.
func (p *Parts) narrowed(pattern, file string) string {
	parts, names := strings.Split(filepath.ToSlash(pattern), "/"), strings.Split(filepath.ToSlash(file), "/")
	if len(parts) > len(names) || slices.Contains(parts, "**") {
		return file
	}
	for _, column := range p.Columns {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, column+"=") })
		if i < 0 || i >= len(parts) || i == len(names)-1 || strings.ContainsAny(names[i], `*?[]\`) {
			return file
		}
		if ok, err := filepath.Match(parts[i], names[i]); err != nil || !ok {
			return file
		}
		parts[i] = names[i]
	}
	return strings.Join(parts, "/")
}
