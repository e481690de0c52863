package save

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
)

// A checkpoint of hosts that do not share the run directory is written by notes that ranks
// read from each other, while training continues:
//
//	every rank   writes its part, and notes its entry (partNote)
//	             copies the parts that it keeps for ranks of another host, and notes which
//	rank 0       waits for both notes of all ranks, commits, and notes the manifest (verdict)
//	leaders      wait for that note, adopt the manifest on their volumes, and note the outcome
//	rank 0       waits for all outcomes
//
// The first rank of a volume leads it. Notes about a step are removed before it is begun again.

// partNote is what a rank notes about its part.
type partNote struct {
	partReport
	Sum checkpoint.Sum // of the whole file
}

// copyNote is what a rank notes about the copies that it keeps.
type copyNote struct {
	Ranks  []int    // whose parts it has
	Faults []string // why it does not have the others
}

// verdict is what rank 0 notes about a checkpoint.
type verdict struct {
	Manifest []byte
	Fault    string
}

// Kinds of notes.
const (
	notePart    = "part"
	noteCopies  = "copies"
	noteVerdict = "verdict"
	noteOutcome = "outcome"
)

// copyBytes is the unit in which parts are copied.
const copyBytes = 1 << 20

// note notes v for the other ranks.
func (p *pending) note(what string, v any) {
	b, err := json.Marshal(v)
	if err == nil { // these types cannot fail
		p.volumes.Note(volumes.NotePath(p.root, p.step, what, p.rank), b)
	}
}

// forget removes the notes of an earlier attempt at this step.
func (p *pending) forget() {
	for _, what := range []string{notePart, noteCopies, noteVerdict, noteOutcome} {
		p.volumes.Note(volumes.NotePath(p.root, p.step, what, p.rank), nil)
	}
}

// await waits for a note of a rank and decodes it.
func (p *pending) await(ctx context.Context, what string, rank int, to any) error {
	b, err := p.volumes.Await(ctx, rank, volumes.NotePath(p.root, p.step, what, rank))
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("note of rank %d: %w", rank, err)
	}
	return nil
}

// completeOnVolumes completes the checkpoint with the ranks of the other volumes, after this rank has
// written its part or failed to.
func (p *pending) completeOnVolumes(ctx context.Context) {
	own := partNote{partReport: partReport{File: p.file}}
	err := p.err
	if err == nil && p.copies > 1 {
		own.Sum, err = sumOf(p.path(p.file.Name))
	}
	if err != nil {
		own.Fault = err.Error()
	}
	p.note(notePart, own)
	p.note(noteCopies, p.keepCopies(ctx))
	switch {
	case p.rank == 0:
		files, err := p.collect(ctx)
		if err == nil {
			p.commit(files)
		} else if ctx.Err() == nil {
			p.committed, p.fault = true, err.Error()
		}
		p.announce(ctx)
		if p.committed && p.fault == "" {
			p.valid()
		}
	case p.volumes.Leads():
		p.note(noteOutcome, p.adopt(ctx))
	}
}

// path returns the path of a file of the checkpoint before it is committed.
func (p *pending) path(name string) string {
	return filepath.Join(p.root, fmt.Sprintf(".tmp-step-%09d", p.step), name)
}

// sumOf returns the checksum of a file.
func sumOf(path string) (checkpoint.Sum, error) {
	f, err := regular.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := xxh3.New()
	_, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, copyBytes))
	return checkpoint.Sum(h.Sum64()), err
}

// keepCopies copies the parts that this rank keeps for others. If one fails, it keeps none.
func (p *pending) keepCopies(ctx context.Context) (n copyNote) {
	if p.copies < 2 {
		return n
	}
	var names []string
	for r := range p.size {
		if p.volumes.Holder(r) != p.rank {
			continue
		}
		var of partNote
		err := p.await(ctx, notePart, r, &of)
		if err == nil && of.Fault != "" {
			continue // there is nothing to copy
		}
		if err == nil {
			err = p.copyPart(ctx, r, of)
		}
		if err != nil {
			n.Faults = append(n.Faults, fmt.Sprintf("host %s has no copy of the part of rank %d: %v", p.volumes.Hosts[p.rank], r, err))
		} else {
			n.Ranks, names = append(n.Ranks, r), append(names, of.File.Name)
		}
	}
	if len(n.Faults) == 0 {
		return n
	}
	for i, r := range n.Ranks { // leave the space for the parts and the manifest of this volume
		checkpoint.Drop(p.root, p.step, names[i])
		n.Faults = append(n.Faults, fmt.Sprintf("host %s has no copy of the part of rank %d: it was removed because another copy failed", p.volumes.Hosts[p.rank], r))
	}
	n.Ranks = nil
	return n
}

// copyPart copies the part of a rank to this volume and compares its checksum.
func (p *pending) copyPart(ctx context.Context, rank int, of partNote) error {
	if of.File.Name != filepath.Base(of.File.Name) {
		return fmt.Errorf("%q is not the name of a part", of.File.Name)
	}
	to := p.path(of.File.Name)
	in, err := p.volumes.Open(ctx, rank, to)
	if err != nil {
		return err
	}
	if in.Size() != of.File.Size {
		return fmt.Errorf("%s has %d bytes on host %s, its rank wrote %d", to, in.Size(), p.volumes.Hosts[rank], of.File.Size)
	}
	return checkpoint.Receive(p.root, p.step, of.File.Name, func(out io.Writer) error {
		return p.fetch(in, out, rank, of)
	})
}

// fetch copies the part of a rank to out and compares its checksum.
func (p *pending) fetch(in io.ReaderAt, out io.Writer, rank int, of partNote) error {
	h, b := xxh3.New(), make([]byte, copyBytes)
	for at := int64(0); at < of.File.Size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), of.File.Size-at)]
		if _, err := in.ReadAt(b, at); err != nil {
			return fmt.Errorf("host %s: %w", p.volumes.Hosts[rank], err)
		}
		h.Write(b) // never fails
		if _, err := out.Write(b); err != nil {
			return err
		}
		if p.part.advance != nil {
			p.part.advance(1)
		}
	}
	if sum := checkpoint.Sum(h.Sum64()); sum != of.Sum {
		return fmt.Errorf("%s: the checksum of what host %s sent is %v, its rank wrote %v", of.File.Name, p.volumes.Hosts[rank], sum, of.Sum)
	}
	return nil
}

// collect waits for the notes of all ranks and returns the entries of their parts with the
// hosts that hold them.
func (p *pending) collect(ctx context.Context) (files []checkpoint.File, err error) {
	if files, err = p.parts(ctx); err != nil {
		return nil, err
	}
	for r := range files {
		files[r].Hosts = []string{p.volumes.Hosts[r]}
	}
	for r := range p.size {
		var n copyNote
		if err := p.await(ctx, noteCopies, r, &n); err != nil {
			return nil, err
		}
		for _, fault := range n.Faults {
			p.warn(fmt.Sprintf("checkpoint of step %d: %s", p.step, fault))
		}
		for _, of := range n.Ranks {
			if of < 0 || of >= p.size {
				return nil, fmt.Errorf("rank %d reports a copy of the part of rank %d", r, of)
			}
			files[of].Hosts = append(files[of].Hosts, p.volumes.Hosts[r])
		}
	}
	return files, nil
}

// parts waits for the notes of all ranks about their parts and returns the entries.
func (p *pending) parts(ctx context.Context) (files []checkpoint.File, err error) {
	for r := range p.size {
		var of partNote
		if err := p.await(ctx, notePart, r, &of); err != nil {
			return nil, err
		}
		if of.Fault != "" {
			return nil, fmt.Errorf("rank %d: %s", r, of.Fault)
		}
		files = append(files, of.File)
	}
	return files, nil
}

// announce notes the manifest, or why there is none, and waits until it is adopted at all
// volumes.
func (p *pending) announce(ctx context.Context) {
	v := verdict{Fault: p.fault}
	if !p.committed {
		v.Fault = errDecided.Error()
	} else if p.fault == "" {
		var err error
		if v.Manifest, err = regular.ReadFile(filepath.Join(checkpoint.Dir(p.root, p.step), "MANIFEST.json"), 16<<20); err != nil {
			p.fault, v.Fault = err.Error(), err.Error()
		}
	}
	p.note(noteVerdict, v)
	if v.Fault != "" {
		return
	}
	for _, r := range p.volumes.Leaders()[1:] {
		var fault string
		err := p.await(ctx, noteOutcome, r, &fault)
		if err == nil && fault != "" {
			err = fmt.Errorf("host %s: %s", p.volumes.Hosts[r], fault)
		}
		if err != nil && p.fault == "" {
			p.fault = err.Error()
		}
	}
}

// adopt waits for the manifest of rank 0 and commits the parts of this volume. It returns why
// it could not.
func (p *pending) adopt(ctx context.Context) string {
	var v verdict
	err := p.await(ctx, noteVerdict, 0, &v)
	if err == nil && v.Fault == "" {
		err = checkpoint.Adopt(p.root, bytes.Clone(v.Manifest))
	}
	if err != nil {
		return err.Error()
	}
	p.published = v.Fault == ""
	return ""
}

// endOnVolume ends a checkpoint on a volume, when its outcome is known on all ranks.
func (p *pending) endOnVolume(fault string) {
	if !p.volumes.Several() || !p.volumes.Leads() {
		return
	}
	var err error
	if fault != "" { // an incomplete checkpoint must not count as one
		if err = checkpoint.Abandon(p.root, p.step); p.published {
			err = errors.Join(err, checkpoint.Remove(p.root, p.step))
		}
	} else {
		err = p.prune()
	}
	if err != nil {
		p.warn(fmt.Sprintf("host %s: old checkpoints could not be removed: %v", p.volumes.Hosts[p.rank], err))
	}
}

// prune removes old checkpoints. If volumes differ, the one just written is protected: an
// older one may be incomplete although it can be opened.
func (p *pending) prune() error {
	keep, protect := p.keep, []string(nil)
	if p.volumes.Several() {
		keep, protect = max(p.keep-1, 1), append(protect, checkpoint.Dir(p.root, p.step))
	}
	for _, step := range p.protect() {
		protect = append(protect, checkpoint.Dir(p.root, step))
	}
	return p.keeper.Prune(p.root, keep, protect...)
}
