package publish

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/sparse"
)

// Ranks of several hosts may see different folders of versions. Rank 0 writes to the folder of its host,
// and reads the parts of the other ranks from their memory. Nothing is written on other hosts.

// notePaths returns the paths by which a part is served: its description and its content.
func notePaths(part int64, rank int) (text, content string) {
	name := fmt.Sprintf("publish-%d/%s", part, export.PartName(rank))
	return name + ".json", name + ".bin"
}

// note serves the changes of this rank to rank 0.
func (p *Publisher) note(part int64, own export.Piece, tables []sparse.Table) error {
	text, content, err := own.Part(part, p.Comm.Rank(), tables)
	if err != nil {
		return err
	}
	textPath, contentPath := notePaths(part, p.Comm.Rank())
	p.Volumes.Note(contentPath, content)
	p.Volumes.Note(textPath, text) // last: rank 0 waits for it
	return nil
}

// unnote releases the changes of this rank when the outcome of the version is known.
func (p *Publisher) unnote(part int64) {
	if p.Volumes == nil || p.files != nil {
		return
	}
	textPath, contentPath := notePaths(part, p.Comm.Rank())
	p.Volumes.Note(textPath, nil)
	p.Volumes.Note(contentPath, nil)
}

// fetcher returns how rank 0 gets the parts of the other ranks; nil: from the folder.
func (p *Publisher) fetcher() export.Fetch {
	if p.Volumes == nil {
		return nil
	}
	return func(ctx context.Context, part int64, rank int) ([]byte, func(size int64) ([]byte, error), error) {
		textPath, contentPath := notePaths(part, rank)
		text, err := p.Volumes.Await(ctx, rank, textPath)
		return text, func(size int64) ([]byte, error) {
			f, err := p.Volumes.Open(ctx, rank, contentPath)
			if err != nil {
				return nil, err
			}
			if f.Size() != size {
				return nil, fmt.Errorf("host %s: %s has %d bytes, its description says %d", p.Volumes.Hosts[rank], contentPath, f.Size(), size)
			}
			b := make([]byte, size)
			if size > 0 {
				_, err = f.ReadAt(b, 0)
			}
			return b, err
		}, err
	}
}
