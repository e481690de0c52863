package stream

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// PastOf returns the past of a stream at position now. all are the known positions of
// consecutive spans up to it. key maps a name of a span to the name in a look.
func PastOf(all []Position, now Position, key func(string) string) Past {
	p := Past{map[string]Part{}, map[string]bool{}, int64(len(all)) == now.Spans}
	for _, name := range now.Skipped {
		p.Skipped[key(name)] = true
	}
	for _, at := range append(slices.Clip(all), now) {
		for i, part := range at.Parts {
			p.Parts[key(at.Span[i])] = part
		}
		p.Complete = p.Complete && len(at.Parts) == len(at.Span)
	}
	return p
}

// remember returns the state in which a file was taken before a resume.
func (f *Folders) remember(x File) (was taken, err error) {
	if f.past.Skipped[x.Name] {
		return taken{bytes: x.Bytes, stamp: x.Stamp, closed: true}, nil
	}
	if part, known := f.past.Parts[x.Name]; known {
		return taken{bytes: part.Hi, digest: part.Digest}, nil
	}
	if f.past.Complete {
		x.Bytes, x.Stamp = 0, ""
	}
	if was, err = f.state(x); errors.Is(err, fs.ErrNotExist) { // removed since the look
		return taken{closed: true}, nil
	}
	return was, err
}

// state probes the current state of a file.
func (f *Folders) state(x File) (taken, error) {
	p, err := f.rules.Probe(x.Name, x.Bytes)
	return taken{bytes: x.Bytes, stamp: x.Stamp, digest: p.Digest}, err
}

// change compares a file with the state in which it was taken. part is the new part that
// can be read, nil if there is none. report describes the change to the user.
func (f *Folders) change(x File, was taken) (part *Part, report string, now taken, err error) {
	p, err := f.rules.Probe(x.Name, min(was.bytes, x.Bytes))
	if err == nil {
		now, err = f.state(x)
	}
	if err != nil {
		return nil, "", was, err
	}
	now.closed = was.closed || x.Bytes < was.bytes || p.Digest != was.digest
	grown := x.Bytes - was.bytes
	switch {
	case now.closed && was.closed:
		report = fmt.Sprintf("%s changed again; its %d bytes are not read. Give new files new names", x.Name, x.Bytes)
	case now.closed:
		report = fmt.Sprintf("%s was replaced after it had been read; its %d bytes are not read. Give new files new names", x.Name, x.Bytes)
	case grown == 0: // only the modification time changed
	case was.bytes > 0 && !p.Appends:
		report = fmt.Sprintf("%s grew by %d bytes after it had been read; they are not read, because a file of this kind can only be read whole. %s", x.Name, grown, moveWhole)
	default:
		part = &Part{was.bytes, x.Bytes, now.digest}
		report = fmt.Sprintf("%s grew by %d bytes after it had been read; they are read now", x.Name, grown)
		if was.bytes > 0 && p.Cut {
			report += fmt.Sprintf(", except the rest of the line at byte %d, whose beginning had been read as a record", was.bytes)
		}
		report += ". " + moveWhole
	}
	return part, report, now, nil
}

const moveWhole = "Move files into the folder when they are complete"

// grown finds files of folder i that have changed since they were taken, and adds their
// new parts to a verdict. more reports that others cannot be read yet.
func (f *Folders) grown(i int, old []File, ended bool, v *Verdict) (more bool, err error) {
	before := f.changing[i]
	f.changing[i] = map[string]File{}
	for _, x := range old {
		was := f.taken[i][x.Name]
		if x.Bytes == was.bytes && x.Stamp == was.stamp {
			continue
		}
		if first := was.stamp == "" && x.Bytes == was.bytes; !ended && !first && before[x.Name] != x || len(v.Span) >= f.rules.Most {
			f.changing[i][x.Name] = x
			more = true
			continue
		}
		part, report, now, err := f.change(x, was)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the look
		}
		if err != nil {
			return false, err
		}
		if f.taken[i][x.Name] = now; report != "" {
			v.Reports = append(v.Reports, report)
		}
		if part != nil {
			v.Span, v.Parts = append(v.Span, x.Name), append(v.Parts, *part)
		}
	}
	return more, nil
}
