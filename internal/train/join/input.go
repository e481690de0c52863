package join

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// spanFiles is the number of files of a span: few, so that one input is not far ahead of the others.
const spanFiles = 16

// inputsExist returns an error if a folder does not exist, before anything is written.
func (j *joiner) inputsExist() error {
	for side, patterns := range [2][]string{j.Impressions, j.Feedback} {
		for _, p := range patterns {
			if record.IsTopic(p) {
				continue
			}
			in := &input{j: j, side: side, pattern: p}
			feed, err := data.NewFeed(in.source(), in.at)
			if err != nil {
				return fmt.Errorf("%s: %w", sideNames[side], plain(err))
			}
			feed.Close()
		}
	}
	return nil
}

// open opens the inputs at their positions.
func (j *joiner) open() error {
	for side, patterns := range [2][]string{j.Impressions, j.Feedback} {
		for _, p := range patterns {
			in := &input{j: j, number: len(j.inputs), side: side, pattern: p, sources: map[string]int{}}
			in.decoder.Fields = j.On[side]
			if len(j.Positions) > in.number {
				in.at = j.Positions[in.number]
			}
			j.inputs = append(j.inputs, in)
			if err := in.watch(); err != nil {
				return fmt.Errorf("%s: %w", sideNames[side], plain(err))
			}
		}
	}
	return nil
}

// plain returns an error without the key of the configuration of a training.
func plain(err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "data.follow: "); ok {
		return errors.New(text)
	}
	return err
}

// watch makes the feed.
func (in *input) watch() (err error) {
	src := in.source()
	if in.feed != nil {
		in.feed.Close()
	}
	if in.feed, err = data.NewFeed(src, in.at); err != nil {
		return err
	}
	if !record.IsTopic(in.pattern) {
		in.sources[""] = in.j.machine.Source(sideNames[in.side] + " " + in.pattern)
		past, err := in.past()
		if err != nil {
			return err
		}
		if len(in.at.Span) > 0 { // it is being read
			past = append(past, in.at)
		}
		return in.feed.Remember(past, in.at)
	}
	in.partitions()
	return nil
}

// source returns how the records of the input are read.
func (in *input) source() schema.Source {
	src := schema.Source{}
	if known := in.j.Formats[in.side]; known != nil {
		src = *known
	}
	src.Train = []string{in.pattern}
	src.Follow = schema.Follow{On: true, Files: spanFiles, Poll: in.j.Poll.Seconds(), Lost: in.j.Lost, Bad: schema.Bad{Most: 1, Per: 1}}
	if !in.j.Follow {
		src.Follow.Idle = 1e-3
	}
	return src
}

// partitions adds the partitions of a topic to the sources.
func (in *input) partitions() {
	for _, p := range in.at.Partitions {
		name := fmt.Sprintf("%s/%d", p.Topic, p.Number)
		in.sources[name] = in.j.machine.Source(sideNames[in.side] + " " + name)
	}
}

func (in *input) close() {
	if in.feed != nil {
		in.feed.Close()
	}
	if in.spans != nil {
		in.spans.Close() // what matters has been synced
	}
}

func (in *input) ended() bool { return in.at.Ended != "" }

// reached returns the least time of the sources of the input.
func (in *input) reached() int64 {
	least := Always
	for _, i := range in.sources {
		if s := &in.j.machine.sources[i]; s.Time == nil {
			return Never
		} else {
			least = min(least, *s.Time)
		}
	}
	return least
}

// read looks for new records and adds them.
func (in *input) read(ctx context.Context) (news bool, err error) {
	if in.ended() {
		return false, nil
	}
	next := in.at.Clone()
	v, err := in.feed.Next(ctx, &next, in.idle())
	if data.IsAway(err) && len(in.at.Partitions)+len(in.at.Folders) > 0 {
		if !in.away {
			in.j.Warn(fmt.Sprintf("%v; the join waits until it is there again", err))
		}
		in.away, in.quiet = true, time.Time{}
		in.feed.Retry(in.at)
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", sideNames[in.side], plain(err))
	}
	in.away = false
	for _, line := range v.Reports {
		in.j.Warn(line)
	}
	for _, bad := range v.Bad {
		if err := in.badFile(bad.Name, errors.New(bad.Why)); err != nil {
			return false, err
		}
	}
	if len(v.Span) == 0 && next.Ended == "" && len(v.Bad) == 0 {
		return false, in.nothing(next)
	}
	in.at, in.quiet, in.j.dirty = next, time.Time{}, true
	in.partitions()
	for i, name := range v.Span {
		var part *stream.Part
		if i < len(v.Parts) {
			part = &v.Parts[i]
		}
		if err := in.name(ctx, name, part); err != nil {
			return false, err
		}
	}
	if in.ended() {
		for _, i := range in.sources {
			in.j.machine.End(i)
		}
	}
	return true, nil
}

// idle returns the time since the last new record.
func (in *input) idle() time.Duration {
	if in.quiet.IsZero() {
		return 0
	}
	return time.Since(in.quiet)
}

// nothing records a look without anything new.
func (in *input) nothing(at stream.Position) error {
	if len(at.Partitions) != len(in.at.Partitions) {
		in.at, in.j.dirty = at, true
		in.partitions()
	}
	if in.quiet.IsZero() {
		in.quiet = time.Now()
	}
	in.first()
	if in.j.Idle == 0 || in.idle() < in.j.Idle {
		return nil
	}
	for _, i := range in.sources {
		if s := &in.j.machine.sources[i]; !s.Idle {
			in.j.machine.Idle(i)
			in.j.dirty = true
		}
	}
	return nil
}

// firstWait is the number of looks without a first record, while the other side has records, after
// which the input is named.
const firstWait = 10

// first names an input that holds up the join because it has had no record yet.
func (in *input) first() {
	others := in.j.Counts.Feedback
	if in.side == feedbacks {
		others = in.j.Counts.Impressions
	}
	if !in.j.Follow || in.named || others == 0 || in.reached() != Never || in.idle() < firstWait*in.j.Poll {
		return
	}
	in.named = true
	idle := "it has no -idle"
	if in.j.Idle > 0 {
		idle = fmt.Sprintf("idle %v", in.j.Idle)
	}
	in.j.Warn(fmt.Sprintf("waiting for %s %s (%s)", sideNames[in.side], in.pattern, idle))
}

// badFile reports a file that is left out.
func (in *input) badFile(name string, cause error) error {
	in.j.Warn(fmt.Sprintf("%s is left out: %v", name, cause))
	in.j.BadFiles++
	return in.j.reject(in.side, cause.Error(), name, nil)
}

// name adds the records of one name of a span.
func (in *input) name(ctx context.Context, name string, part *stream.Part) error {
	first := in.j.Formats[in.side] == nil
	files, err := in.openName(name, part)
	switch {
	case errors.Is(err, record.ErrEmpty):
		return nil
	case err != nil && (first || data.IsAway(err)):
		return fmt.Errorf("%s: %w", sideNames[in.side], err)
	case err != nil:
		return in.badFile(name, err)
	}
	source := in.sources[""]
	if a, err := kafka.ParseAddress(name); record.IsTopic(name) && err == nil {
		source = in.sources[fmt.Sprintf("%s/%d", a.Topic, a.Range.Partition)]
	}
	files.Wait(ctx, func(cause error, lasted time.Duration) {
		if !in.away && lasted > 2*time.Second {
			in.away = true
			in.j.Warn(fmt.Sprintf("%v; the join waits until it is there again", cause))
		}
	})
	walked, err := in.records(ctx, files, source)
	for i := range walked.Faults {
		f := &walked.Faults[i]
		if err := in.bad(f.Reason(), f.Place(), nil); err != nil {
			return err
		}
	}
	in.j.Bad += walked.Bad - int64(len(walked.Faults))
	if _, own := errors.AsType[ownError](err); err == nil || own || ctx.Err() != nil || data.IsAway(err) {
		return err
	}
	return in.badFile(name, err)
}

// maxFaults is the number of unreadable, and of unusable, records of a file whose places are written.
const maxFaults = 1000

// ownError is an error of the join and not of the file that is read.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// records adds the records of a file.
func (in *input) records(ctx context.Context, files *record.Files, source int) (record.Walked, error) {
	d := &in.decoder
	placed := 0
	unusable := func(why string, place func() string, object []byte) error {
		at := ""
		if placed++; placed <= maxFaults {
			at = place()
		}
		if err := in.bad(why, at, object); err != nil {
			return ownError{err}
		}
		return nil
	}
	add := func(place func() string, lists []value.List, object []byte) error {
		e, why := d.decode(lists)
		if e.object = object; why == "" && e.time > time.Now().Add(in.j.Ahead).UnixMilli() {
			why = fmt.Sprintf("its time is %s, in the future: correct the clock that wrote it", time.UnixMilli(e.time).UTC().Format(time.RFC3339))
		}
		if why != "" {
			return unusable(why, place, object)
		}
		if err := in.j.add(in.side, source, &e); err != nil {
			return ownError{err}
		}
		return nil
	}
	needed := d.needed()
	if files.AreObjects() {
		if d.Label != "" {
			needed = append(needed, d.Label)
		}
		return files.Placed(ctx, needed, maxFaults, func(place func() string, object []byte, lists []value.List) error {
			return add(place, lists, oneLine(object))
		})
	}
	_, late, err := files.Survey(ctx, nil, 0, func([]value.List) error { return nil }, nil)
	if err != nil {
		return record.Walked{}, err
	}
	files = files.With(late)
	names := files.Fields()
	if d.Label != "" && slices.Contains(names, d.Label) {
		return record.Walked{}, fmt.Errorf("it has a field %q, the name of the label of samples", d.Label)
	}
	var at []int
	for _, name := range needed {
		i := slices.Index(names, name)
		if i < 0 {
			return record.Walked{}, fmt.Errorf("no record has the field %q", name)
		}
		at = append(at, i)
	}
	some := make([]value.List, len(at))
	return files.Placed(ctx, names, maxFaults, func(place func() string, _ []byte, lists []value.List) error {
		for i, k := range at {
			some[i] = lists[k]
		}
		object, why := d.objectOf(names, lists)
		if why != "" {
			return unusable(why, place, nil)
		}
		return add(place, some, object)
	})
}

// bad counts an unusable record. The first one is reported.
func (in *input) bad(why, place string, object []byte) error {
	if in.j.Bad++; in.j.Bad == 1 {
		at := ""
		if place != "" {
			at = place + ": "
		}
		in.j.Warn(fmt.Sprintf("%s: %s%s; such records are in %s", sideNames[in.side], at, why, in.j.rejected.dir))
	}
	return in.j.reject(in.side, why, place, object)
}

// openName opens a file. The first one of a side shows the format of all.
func (in *input) openName(name string, part *stream.Part) (*record.Files, error) {
	known := in.j.Formats[in.side]
	if known == nil {
		seen, err := inspect.First(name, 0)
		if err != nil {
			return nil, err
		}
		src := seen.Source()
		known = &src
	}
	files, err := record.OpenName(*known, name, part)
	if err != nil {
		return nil, err
	}
	if in.j.Formats[in.side] == nil {
		if err := in.check(files); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in.j.Formats[in.side] = known
		if err := in.j.reopen(in.side); err != nil {
			return nil, err
		}
	}
	in.decoder.missing = known.Missing
	return files, nil
}

// reopen makes the feeds of a side again, which must know the format of the files.
func (j *joiner) reopen(side int) error {
	for _, in := range j.inputs {
		if in.side == side {
			if err := in.watch(); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error if the first records do not have the fields of the join.
func (in *input) check(files *record.Files) error {
	has := files.Fields()
	if l := in.decoder.Label; l != "" && slices.Contains(has, l) {
		return fmt.Errorf("impressions have a field %q, the name of the label of samples: give another one with -label", l)
	}
	for _, name := range in.decoder.needed() {
		if files.Has(name) {
			continue
		}
		meant := "."
		if near := nearest.Of(name, has); near != "" {
			meant = fmt.Sprintf("; did you mean %q?", near)
		}
		return fmt.Errorf("its records have no field %q%s There are %s", name, meant, strings.Join(has, ", "))
	}
	return nil
}

// spanFile is the name of the file with the positions of all spans.
func (in *input) spanFile() string { return fmt.Sprintf("spans-%d.jsonl", in.number) }

// past reads the positions of earlier spans, which are needed to find files that have changed since.
// Those of spans that were not committed are removed.
func (in *input) past() (all []stream.Position, err error) {
	if in.spans != nil {
		in.spans.Close() // it is opened again
	}
	in.spans, err = regular.OpenFile(filepath.Join(in.j.State, in.spanFile()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r, good := bufio.NewReader(in.spans), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var at stream.Position
		if json.Unmarshal(line, &at) != nil || at.Validate() != nil || at.Spans > in.at.Spans {
			break
		}
		all, good = append(all, at), good+int64(len(line))
	}
	if err := in.spans.Truncate(good); err != nil {
		return nil, err
	}
	_, err = in.spans.Seek(good, io.SeekStart)
	return all, err
}

// log makes the position of a span durable.
func (in *input) log() error {
	if in.spans == nil || len(in.at.Span) == 0 {
		return nil
	}
	b, err := json.Marshal(stream.Position{Spans: in.at.Spans, Span: in.at.Span, Parts: in.at.Parts})
	if err != nil {
		return err
	}
	in.at.Span, in.at.Parts = nil, nil
	_, err = in.spans.Write(append(b, '\n'))
	return errors.Join(err, in.spans.Sync())
}
