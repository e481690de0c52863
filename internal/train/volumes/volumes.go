// Package volumes finds which ranks of a job share a run directory, and reads the parts of
// checkpoints on the hosts that do not share it.
//
// A volume is the storage of a run directory, with the ranks that see it. Rank 0 sees volume 0. If all
// ranks see it, there is one volume, and nothing is read from other hosts.
//
// Every rank serves the parts and manifests of checkpoints on its host to the other ranks
// (package peerfile), while its job runs. Methods marked collective are called by all ranks.
//
// All content from other hosts is checked: manifests and directories by their checksums when
// they arrive, sections when they are read. A manifest has at most 16 MiB, a report 64 MiB.
package volumes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/internal/train/peerfile"
	"github.com/wdlrun/wdlrun/rank"
)

// Config describes the group.
type Config struct {
	Comm   *collective.Comm
	Hosts  []string // host of each rank
	Key    rank.Key
	Listen func() (net.Listener, error) // opens a port of this rank for the others

	Patience time.Duration // how long a shared disk may show names of some time ago
	Advance  func(by int)  // if not nil, called while Split waits
}

// Volumes is the view of one rank.
type Volumes struct {
	Config
	server *peerfile.Server
	client *peerfile.Client
	addrs  []string // by rank
	of     []int    // volume of each rank; nil before Split

	open  context.Context // until Close
	close context.CancelFunc
	data  sync.Map // paths of the data files that this rank serves
}

const (
	maxAddr     = 1 << 8
	maxReport   = 64 << 20
	maxManifest = 16 << 20
	maxFault    = 4 << 10
)

// served matches the files that a rank serves.
var served = pattern.Lazy(`(^|/)\.?[a-z]*-?step-[0-9]{9,}/(` + manifest + `|rank-[0-9]{4,}-of-[0-9]{4,}\.wck|note-[a-z0-9-]+)$`)

const manifest = "MANIFEST.json"

// Open starts the service of this rank. It returns nil if all ranks are on one host.
// Collective.
func Open(c Config) (*Volumes, error) {
	if len(c.Hosts) != c.Comm.Size() || c.Listen == nil || len(slices.Compact(slices.Sorted(slices.Values(c.Hosts)))) == 1 {
		return nil, nil
	}
	p := &Volumes{Config: c}
	p.open, p.close = context.WithCancel(context.Background())
	ln, err := c.Listen()
	if err == nil {
		if p.server, err = peerfile.Serve(ln, c.Key, p.serves); err != nil {
			ln.Close()
		}
	}
	if err == nil {
		p.client, err = peerfile.NewClient(c.Key)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("service for the other hosts: %w", err)
	}
	all, err := collective.AllGatherBytes(c.Comm, []byte(p.server.Addr()), maxAddr)
	if err != nil {
		p.Close()
		return nil, err
	}
	for _, addr := range all {
		p.addrs = append(p.addrs, string(addr))
	}
	return p, nil
}

// Close ends the service. p may be nil.
func (p *Volumes) Close() {
	if p == nil {
		return
	}
	p.close()
	if p.server != nil {
		p.server.Close()
	}
	if p.client != nil {
		p.client.Close()
	}
}

// Token returns the name of a new file in a run directory, by which other ranks recognise the
// directory. Rank 0 writes it before Split.
func Token(runDir string) (name string, err error) {
	name = ".here-" + rand.Text()
	return name, regular.WriteFile(filepath.Join(runDir, name), nil, 0o600)
}

// Split finds the volumes of the ranks and makes the run directory where it is missing. token
// is the file that rank 0 has written to it. Collective.
func (p *Volumes) Split(runDir, token string) error {
	sees := func(name string) (bool, error) { return p.hasFile(runDir, name) }
	me, size := p.Comm.Rank(), p.Comm.Size()
	groups := make([]int64, size) // by rank, the first rank of its volume
	first, err := sees(token)
	if err == nil {
		err = p.exchange(groups, func() int64 {
			if first {
				return 0
			}
			return -1
		})
	}
	if err != nil {
		return err
	}
	// Of the other ranks, the first of each host makes a directory. Ranks of one host may be
	// in containers with a disk each.
	leader := slices.IndexFunc(p.Hosts, func(h string) bool { return h == p.Hosts[me] })
	for leader < me && !(groups[leader] < 0 && p.Hosts[leader] == p.Hosts[me]) {
		leader++
	}
	own := fmt.Sprintf("%s-%d", token, leader)
	if !first && leader == me {
		if err = os.MkdirAll(runDir, 0o755); err == nil {
			err = regular.WriteFile(filepath.Join(runDir, own), nil, 0o600)
		}
	}
	if err := p.agree(err); err != nil {
		return err
	}
	second := true
	if !first && leader != me {
		if second, err = sees(own); err == nil && !second {
			err = os.MkdirAll(runDir, 0o755)
		}
	}
	if err := p.agree(err); err != nil {
		return err
	}
	err = p.exchange(groups, func() int64 {
		switch {
		case first:
			return 0
		case second:
			return int64(leader)
		}
		return int64(me)
	})
	if err != nil {
		return err
	}
	if me == 0 {
		os.Remove(filepath.Join(runDir, token)) // a file that remains has no effect
	} else if !first && leader == me {
		os.Remove(filepath.Join(runDir, own))
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(groups)))
	p.of = make([]int, size)
	for r, g := range groups {
		p.of[r] = slices.Index(distinct, g)
	}
	return nil
}

// hasFile reports whether the run directory has a file that another rank has made. A network file
// system may not show it at once, nor the directory: only a file that is missing for longer than its
// caches live proves that the disk is another one. Other file systems have one host.
func (p *Volumes) hasFile(runDir, name string) (bool, error) {
	for begin, pause := time.Now(), 20*time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := os.Stat(filepath.Join(runDir, name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
		if time.Since(begin) >= p.Patience || !mayBeShared(runDir) {
			return false, nil
		}
		for dir := runDir; ; dir = filepath.Dir(dir) { // a listing makes some file systems ask their server
			if _, err := os.ReadDir(dir); err == nil || dir == filepath.Dir(dir) {
				break
			}
		}
		if p.Advance != nil {
			p.Advance(1)
		}
		time.Sleep(pause)
	}
}

// exchange sets all to the value of each rank.
func (p *Volumes) exchange(all []int64, own func() int64) error {
	all[p.Comm.Rank()] = own()
	return collective.AllGather(p.Comm, all)
}

// agree returns an error if any rank has one; the first on every rank.
func (p *Volumes) agree(err error) error {
	var own []byte
	if err != nil {
		own = []byte(err.Error())
		own = own[:min(len(own), maxFault)]
	}
	all, err := collective.AllGatherBytes(p.Comm, own, maxFault)
	if err != nil {
		return err
	}
	for r, b := range all {
		if len(b) > 0 {
			return fmt.Errorf("host %s: %s", p.Hosts[r], b)
		}
	}
	return nil
}

// Several reports whether the ranks see different run directories. p may be nil.
func (p *Volumes) Several() bool { return p != nil && len(p.of) > 0 && slices.Max(p.of) > 0 }

// RanksWithoutRunDir returns the ranks that do not see the run directory of rank 0, ascending. p may be nil.
func (p *Volumes) RanksWithoutRunDir() (ranks []int) {
	if p == nil {
		return nil
	}
	for rank, volume := range p.of {
		if volume > 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Leads reports whether this rank is the first of its volume, which manages the directory.
func (p *Volumes) Leads() bool { return slices.Index(p.of, p.of[p.Comm.Rank()]) == p.Comm.Rank() }

// Leaders returns the first rank of each volume.
func (p *Volumes) Leaders() (all []int) {
	for volume := range slices.Max(p.of) + 1 {
		all = append(all, slices.Index(p.of, volume))
	}
	return all
}

// Holder returns the rank that keeps a copy of a rank's parts, which is on the next volume.
func (p *Volumes) Holder(rank int) int {
	members := func(volume int) (all []int) {
		for r, q := range p.of {
			if q == volume {
				all = append(all, r)
			}
		}
		return all
	}
	next := members((p.of[rank] + 1) % (slices.Max(p.of) + 1))
	return next[slices.Index(members(p.of[rank]), rank)%len(next)]
}

// Note serves b to other ranks as the file of a path, which is not on disk. nil removes it.
func (p *Volumes) Note(path string, b []byte) { p.server.Note(path, b) }

// NotePath returns the path of the note of a rank about the checkpoint of a step.
func NotePath(root string, step int64, what string, rank int) string {
	return filepath.Join(root, fmt.Sprintf(".tmp-step-%09d", step), fmt.Sprintf("note-%s-%d", what, rank))
}

// patience is how long a rank may be unreachable while others wait for its note.
const patience = 10 * time.Second

// Await waits for a note of a rank.
func (p *Volumes) Await(ctx context.Context, rank int, path string) ([]byte, error) {
	failing := time.Time{}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		b, err := p.client.Read(ctx, p.addrs[rank], path, maxManifest+maxFault)
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > patience:
			return nil, fmt.Errorf("host %s: %w", p.Hosts[rank], err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Open opens a file of a rank's host. Reads end with ctx.
func (p *Volumes) Open(ctx context.Context, rank int, path string) (*peerfile.File, error) {
	f, err := p.client.Open(ctx, p.addrs[rank], path)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", p.Hosts[rank], err)
	}
	return f, nil
}

// serves reports whether this rank serves a file.
func (p *Volumes) serves(path string) bool {
	_, isData := p.data.Load(path)
	return isData || served().MatchString(path)
}
