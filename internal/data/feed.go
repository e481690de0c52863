package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/remote"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
)

// Feed watches growing training data and decides what is read next. One rank has it and
// sends the decisions to the others. It belongs to one goroutine, except Commit.
type Feed struct {
	source   schema.Source
	follow   schema.Follow
	rules    stream.Rules
	patterns []string // globs and folders
	folders  *stream.Folders
	past     stream.Past
	queries  map[string]string // by address of a remote file: its query
	tags     map[string]string // by name of a remote file: its entity tag
	logs     []*kafka.Log      // of topics, instead of patterns; open
	topics   *stream.Topics
}

// NewFeed watches the training data of a source whose Follow is on, from position at. The
// zero position is the beginning. Folders must exist.
func NewFeed(src schema.Source, at stream.Position) (*Feed, error) {
	f := &Feed{source: src, follow: src.Follow.Filled(), patterns: slices.Clone(src.Train), queries: map[string]string{}, tags: map[string]string{}}
	f.rules = stream.Rules{Most: f.follow.Files, Idle: time.Duration(f.follow.Idle * float64(time.Second)), Skip: f.follow.Lost == schema.LostSkip, Late: f.follow.Bad.On(), Probe: f.probe}
	if slices.ContainsFunc(f.patterns, isTopic) {
		return f.ofTopics(at)
	}
	for i, p := range f.patterns {
		if remote.Is(p) {
			if !remote.Available {
				_, err := remote.List(context.Background(), p)
				return nil, fmt.Errorf("data.follow: %w", err)
			}
			continue
		}
		path, err := record.PathOf(p)
		if err != nil {
			return nil, fmt.Errorf("data.follow: %w", err)
		}
		f.patterns[i] = path
		if strings.ContainsAny(path, "*?[") {
			continue
		}
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("data.follow: %s: %w; %s", p, fs.ErrNotExist, record.PathHint(path))
		case err != nil:
			return nil, fmt.Errorf("data.follow: %w", err)
		case !info.IsDir():
			return nil, fmt.Errorf("data.follow: %s is not a folder; a stream is a folder, or a glob such as clicks/day=*/part-*, of files that are moved there when they are complete", p)
		}
	}
	return f, f.Resume(at)
}

func isTopic(p string) bool { return strings.HasPrefix(p, kafka.Scheme) }

// ofTopics makes f a feed of topics.
func (f *Feed) ofTopics(at stream.Position) (*Feed, error) {
	f.rules.Most = f.follow.Rows
	names := map[string]bool{}
	for _, p := range f.patterns {
		a, err := kafka.ParseAddress(p)
		switch {
		case !isTopic(p):
			return nil, fmt.Errorf("data.follow: %s is not a topic, and others are; a stream is either", p)
		case err != nil:
			return nil, fmt.Errorf("data.follow: %w", err)
		case a.Range != nil:
			return nil, fmt.Errorf("data.follow: %s is a range of offsets, which does not grow; name the topic alone", p)
		case names[a.Topic]:
			return nil, fmt.Errorf("data.follow: topic %s is named twice, its records would count twice; remove one", a.Topic)
		}
		names[a.Topic] = true
		f.logs = append(f.logs, kafka.NewLog(a))
	}
	for i, l := range f.logs {
		if err := l.Open(); err != nil {
			for _, open := range f.logs[:i] {
				open.Close()
			}
			return nil, fmt.Errorf("data.follow: %w", err)
		}
	}
	return f, f.Resume(at)
}

// Close closes the connections.
func (f *Feed) Close() {
	for _, l := range f.logs {
		l.Close()
	}
}

// Commit commits the offsets of topics to their brokers. Everything before them must have
// been trained on and be in a checkpoint.
func (f *Feed) Commit(ctx context.Context, at []stream.Partition) error {
	for _, l := range f.logs {
		if err := l.Commit(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// lookPatience is the time for which a look waits for a broker that has answered before. It is
// short, because the ranks agree on requests to stop between two looks.
const lookPatience = 5 * time.Second

// IsAway reports whether an error of Next may be over at the next look: the broker, the topic, the folder or the object
// store of a stream that has been read before is not there.
func IsAway(err error) bool {
	var a away
	return kafka.IsAway(err) || errors.As(err, &a)
}

// away is the error of a folder or an object store that cannot be listed now.
type away struct{ error }

func (e away) Unwrap() error { return e.error }

// Remember sets the spans that a run has read up to the position from which it resumes.
// The feed uses them to find files that have changed since.
func (f *Feed) Remember(spans []stream.Position, at stream.Position) error {
	f.past = stream.PastOf(spans, at, func(name string) string {
		if i := strings.LastIndexByte(name, '?'); i >= 0 && remote.Is(name) {
			return name[:i]
		}
		return name
	})
	return f.Resume(at)
}

// probe returns a digest of the first n bytes of a file. For a remote file it is the
// digest of its entity tag.
func (f *Feed) probe(name string, n int64) (stream.Probe, error) {
	if remote.Is(name) {
		return stream.Probe{Digest: record.TagDigest(f.tags[name])}, nil
	}
	return record.Probe(f.source, name, n)
}

// Retry makes the feed continue from the position before an error that IsAway.
func (f *Feed) Retry(at stream.Position) {
	if f.logs != nil {
		f.topics = stream.NewTopics(f.rules, at)
	} // what is known of folders did not change
}

// Resume makes the feed continue from another position.
func (f *Feed) Resume(at stream.Position) (err error) {
	if f.logs != nil {
		f.topics = stream.NewTopics(f.rules, at)
		return nil
	}
	f.folders, err = stream.NewFolders(f.rules, f.patterns, at, f.past)
	return err
}

// Next looks for new data and decides what to read. It sets at to the position behind the
// verdict. quiet is the time since the last new data.
func (f *Feed) Next(ctx context.Context, at *stream.Position, quiet time.Duration) (v stream.Verdict, err error) {
	if f.logs != nil {
		v, err = f.nextRanges(ctx, at, quiet)
	} else {
		v, err = f.nextFiles(ctx, at, quiet)
	}
	if err != nil {
		return v, fmt.Errorf("data.follow: %w", err)
	}
	if at.Span, at.Parts, at.Ended = v.Span, v.Parts, v.End; len(v.Span) > 0 {
		at.Spans++
	}
	return v, nil
}

// Left removes from the span of a position what no longer exists, if data.follow.lost permits it.
// It counts the records in at.Lost. reports name them.
func (f *Feed) Left(ctx context.Context, at *stream.Position) (reports []string, err error) {
	if f.logs == nil || !f.rules.Skip {
		return nil, nil
	}
	marks, err := f.marks(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("data.follow: %w", err)
	}
	var left []string
	for _, name := range at.Span {
		a, err := kafka.ParseAddress(name)
		if err == nil && a.Range == nil {
			err = fmt.Errorf("%s is not a range of offsets", name)
		}
		if err != nil {
			return nil, fmt.Errorf("data.follow: %w", err)
		}
		r, lost, report := stream.Left(stream.Range{Topic: a.Topic, ID: a.ID, Number: a.Range.Partition, Lo: a.Range.Lo, Hi: a.Range.Hi}, marks)
		if r.Lo < r.Hi {
			left = append(left, a.Of(kafka.Range{Partition: r.Number, Lo: r.Lo, Hi: r.Hi}, r.ID).String())
		}
		if at.Lost += lost; report != "" {
			reports = append(reports, report)
		}
	}
	at.Span = left
	return reports, nil
}

// marks returns the offsets of all topics. The brokers of a stream that has been read before are
// asked for a short time only.
func (f *Feed) marks(ctx context.Context, at *stream.Position) (marks []stream.Mark, err error) {
	for _, l := range f.logs {
		if len(at.Partitions) > 0 {
			l.SetPatience(lookPatience)
		}
		of, err := l.Marks(ctx)
		if err != nil {
			return nil, err
		}
		marks = append(marks, of...)
	}
	return marks, nil
}

// Lags returns how many records of each partition of topics wait to be read, which the last look left.
func (f *Feed) Lags() []stream.Lag {
	if f.topics == nil {
		return nil
	}
	return f.topics.Lags()
}

func (f *Feed) nextRanges(ctx context.Context, at *stream.Position, quiet time.Duration) (v stream.Verdict, err error) {
	marks, err := f.marks(ctx, at)
	if err != nil {
		return v, err
	}
	ranges, err := f.topics.Next(marks, quiet)
	if err != nil {
		return v, err
	}
	for _, r := range ranges.Span {
		i := slices.IndexFunc(f.logs, func(l *kafka.Log) bool { return l.Address().Topic == r.Topic })
		v.Span = append(v.Span, f.logs[i].Address().Of(kafka.Range{Partition: r.Number, Lo: r.Lo, Hi: r.Hi}, r.ID).String())
	}
	v.End, v.Reports, at.Partitions = ranges.End, ranges.Reports, f.topics.At()
	at.Lost += ranges.Lost
	return v, nil
}

func (f *Feed) nextFiles(ctx context.Context, at *stream.Position, quiet time.Duration) (v stream.Verdict, err error) {
	seen := make([]stream.Seen, len(f.patterns))
	for i, p := range f.patterns {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		if remote.Is(p) {
			if seen[i], err = f.lookRemote(ctx, p); err != nil && ctx.Err() == nil && len(at.Folders) > 0 {
				err = away{err}
			}
		} else {
			seen[i], err = f.list(p)
		}
		if err != nil {
			return v, err
		}
	}
	v, err = f.folders.Next(seen, quiet)
	for i, name := range v.Span {
		v.Span[i] = name + f.queries[name]
	}
	clear(f.queries)
	clear(f.tags)
	at.Folders = f.folders.At()
	at.Skip(v.Bad)
	return v, err
}

// list lists the files of a folder and the folders in it, or those that match a glob. Only the
// mark in the folder itself ends the stream: Spark also marks partitions.
func (f *Feed) list(p string) (s stream.Seen, err error) {
	if info, err := os.Stat(p); err == nil && info.IsDir() {
		return s, f.lookIn(&s, p, 0)
	}
	if strings.Contains(p, "**") {
		return s, fmt.Errorf("%s: a pattern with ** cannot be followed; name the folder, whose folders are followed too", p)
	}
	names, err := filepath.Glob(p)
	if err != nil {
		return s, fmt.Errorf("%s: %w", p, err)
	}
	if len(names) == 0 && !strings.ContainsAny(p, "*?[") {
		return s, away{fmt.Errorf("%s: the folder is gone", p)}
	}
	for _, name := range names {
		if err := addFile(&s, name, func() (fs.FileInfo, error) { return os.Stat(name) }); err != nil {
			return s, err
		}
	}
	return s, nil
}

// maxDeep is the maximum depth of folders in a followed folder.
const maxDeep = 64

// lookIn lists the files of a folder at some depth. It does not follow links to folders.
func (f *Feed) lookIn(s *stream.Seen, p string, depth int) error {
	if depth > maxDeep {
		return fmt.Errorf("%s: folders are more than %d deep", p, maxDeep)
	}
	entries, err := os.ReadDir(p)
	if errors.Is(err, fs.ErrNotExist) && depth > 0 {
		return nil // removed since it was listed
	}
	if err != nil {
		return away{err}
	}
	for _, e := range entries {
		name := filepath.Join(p, e.Name())
		switch {
		case e.Name() == f.follow.Mark:
			s.Ended = s.Ended || depth == 0
		case e.IsDir() && stream.Whole(name):
			err = f.lookIn(s, name, depth+1)
		default:
			err = addFile(s, name, e.Info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file to s, unless it is not a file of records.
func addFile(s *stream.Seen, name string, stat func() (fs.FileInfo, error)) error {
	if !stream.Whole(name) {
		return nil
	}
	info, err := stat()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		info, err = os.Stat(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed since it was listed
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return nil
	case len(s.Files) == record.MaxFiles:
		return fmt.Errorf("%s: more than %d files; remove those that were read", filepath.Dir(name), record.MaxFiles)
	}
	s.Files = append(s.Files, stream.File{Name: name, Bytes: info.Size(), Stamp: info.ModTime().Format(time.RFC3339Nano)})
	return nil
}

// lookRemote lists the objects of a folder or a glob, by their names without the query.
func (f *Feed) lookRemote(ctx context.Context, p string) (s stream.Seen, err error) {
	all, err := remote.List(ctx, p)
	if err != nil {
		return s, err
	}
	for _, o := range all {
		if path.Base(o.Name) == f.follow.Mark {
			s.Ended = true
			continue
		}
		f.queries[o.Name], f.tags[o.Name] = o.Query, o.Tag
		s.Files = append(s.Files, stream.File{Name: o.Name, Bytes: o.Bytes, Stamp: o.Tag})
	}
	return s, nil
}
