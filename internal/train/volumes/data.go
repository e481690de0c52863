package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/remote"
	"github.com/wdlrun/wdlrun/internal/train/peerfile"
)

// Serve makes data files of this host readable for the other hosts, by exactly these paths.
// Collective: afterwards every rank may call Data for the files of all others.
func (p *Volumes) Serve(paths []string) error {
	for _, path := range paths {
		p.data.Store(path, true)
	}
	return collective.Barrier(p.Comm)
}

// Data opens a data file of another host. A failed read is repeated for 20 s: if the host is
// lost, the group notices that first and ends the job.
func (p *Volumes) Data(host string, f record.Listed) record.Content {
	var ranks []int
	for r, h := range p.Hosts {
		if h == host {
			ranks = append(ranks, r)
		}
	}
	addr, version := p.addrs[ranks[p.Comm.Rank()%len(ranks)]], peerfile.Version(f.Bytes, f.Modified())
	return remote.NewReader(f.Bytes, func(ctx context.Context, lo, hi int64) (b []byte, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.open, cancel)()
		err = remote.Insist(ctx, func(ctx context.Context) (err error) {
			b, err = p.client.Range(ctx, addr, f.Path, version, lo, hi)
			switch {
			case errors.Is(err, peerfile.ErrChanged):
				err = fmt.Errorf("%w: %w", remote.ErrFinal, record.ErrChanged)
			case errors.Is(err, fs.ErrNotExist):
				err = fmt.Errorf("%w: %w on that host; start the job again, on files that no program moves", remote.ErrFinal, err)
			case errors.Is(err, fs.ErrPermission):
				err = fmt.Errorf("%w: %w", remote.ErrFinal, err)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read from host %s: %w", host, err)
		}
		return b, nil
	})
}
