package volumes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// stored is a checkpoint at a host.
type stored struct {
	Name     string
	Away     int   // parts that the host lacks
	Written  int64 // ns, by the file system: equal copies on two hosts differ in it
	Manifest []byte
}

// Collect gives rank 0 the manifests of the checkpoints that other hosts have in root and it
// lacks. It reports, the same on every rank, whether the hosts see different directories.
// root is rank 0's. Collective.
func (p *Volumes) Collect(root string) (differ bool, err error) {
	b, err := collective.BroadcastBytes(p.Comm, []byte(root), 0, maxReport)
	if err != nil {
		return false, err
	}
	root = string(b)
	var own []byte
	if p.leadsHost() {
		own = p.listed(root)
	}
	all, err := collective.AllGatherBytes(p.Comm, own, maxReport)
	if err != nil {
		return false, err
	}
	for r, b := range all {
		if len(b) == 0 {
			continue
		}
		var has []stored
		if err := json.Unmarshal(b, &has); err != nil {
			return false, fmt.Errorf("checkpoints of host %s: %w", p.Hosts[r], err)
		}
		differ = differ || !bytes.Equal(b, all[0])
		for _, s := range has {
			differ = differ || s.Away > 0
			if p.Comm.Rank() > 0 || s.Name != filepath.Base(s.Name) || exists(filepath.Join(root, s.Name, manifest)) {
				continue
			}
			if err := checkpoint.Adopt(root, s.Manifest); err != nil {
				return differ, fmt.Errorf("from host %s: %w", p.Hosts[r], err)
			}
		}
	}
	return differ, nil
}

// listed lists the checkpoints in root, with the manifests of those that open.
func (p *Volumes) listed(root string) []byte {
	all := []stored{}
	found, _ := checkpoint.List(root) // a missing root has none
	for _, f := range found {
		if f.File {
			continue
		}
		b, err := regular.ReadFile(filepath.Join(f.Dir, manifest), maxManifest)
		if err != nil || len(b) > maxReport/8 {
			continue
		}
		s := stored{Name: filepath.Base(f.Dir), Manifest: b}
		if info, err := os.Stat(filepath.Join(f.Dir, manifest)); err == nil {
			s.Written = info.ModTime().UnixNano()
		}
		if c, err := checkpoint.Open(f.Dir); err == nil {
			s.Away = len(c.Away())
		}
		all = append(all, s)
	}
	text, _ := json.Marshal(all) // cannot fail
	return text
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// leadsHost reports whether this rank is the first of its host.
func (p *Volumes) leadsHost() bool {
	me := p.Comm.Rank()
	return slices.Index(p.Hosts, p.Hosts[me]) == me
}

// Fetch makes the checkpoint that rank 0 has opened, and those that it builds upon, readable
// on every rank: parts that a host lacks are read from the others. With verify, the ranks
// first read every byte of the parts of their hosts, and damaged parts are not used. fault,
// the same on every rank, is why the checkpoint cannot be used: a part is on no host.
// Collective.
func (p *Volumes) Fetch(ctx context.Context, c *checkpoint.Checkpoint, verify bool, o Observer) (_ *checkpoint.Checkpoint, fault string, err error) {
	if c, err = p.openOnAllRanks(c); err != nil {
		return nil, "", err
	}
	c.Watch(o.Advance)
	own := p.inspect(ctx, c, verify)
	b, err := json.Marshal(own)
	if err != nil {
		return nil, "", err
	}
	all, err := collective.AllGatherBytes(p.Comm, b, maxReport)
	if err != nil {
		return nil, "", err
	}
	holders, damage := map[string][]int{}, map[string]string{}
	for r, b := range all {
		var x inspected
		if err := json.Unmarshal(b, &x); err != nil {
			return nil, "", fmt.Errorf("report of rank %d: %w", r, err)
		}
		for _, name := range x.Intact {
			holders[name] = append(holders[name], r)
		}
		for name, text := range x.Damaged {
			damage[name] += fmt.Sprintf("; host %s: %s", p.Hosts[r], text)
		}
	}
	for _, link := range c.Chain() {
		for _, f := range link.Manifest().Files {
			name := partOf(link, f)
			switch d := damage[name]; {
			case len(holders[name]) == 0:
				builds := ""
				if link != c {
					builds = c.Dir() + " builds upon it: "
				}
				return nil, fmt.Sprintf("%s%s: %s is intact on no host of this job, it was written on %s%s", builds, link.Dir(), f.Name, writtenOn(f), d), nil
			case d != "" && p.Comm.Rank() == 0:
				o.Warn(fmt.Sprintf("the copy of host %s is used%s", p.Hosts[holders[name][0]], d))
			}
		}
	}
	return c, "", c.Attach(func(path string, f checkpoint.File) (checkpoint.Content, error) {
		return p.attach(ctx, path, holders[filepath.Join(filepath.Base(filepath.Dir(path)), f.Name)])
	})
}

// Observer is called while checkpoints are read.
type Observer struct {
	Advance func(by int)
	Warn    func(line string) // on rank 0
}

// writtenOn names the hosts that held a part when it was committed.
func writtenOn(f checkpoint.File) string {
	if len(f.Hosts) == 0 {
		return "a shared directory"
	}
	return "host " + strings.Join(f.Hosts, " and ")
}

// partOf identifies a part of a chain.
func partOf(link *checkpoint.Checkpoint, f checkpoint.File) string {
	return filepath.Join(filepath.Base(link.Dir()), f.Name)
}

// attach returns where to read a part: nil if it is intact here, else the file of a holder.
func (p *Volumes) attach(ctx context.Context, path string, holders []int) (checkpoint.Content, error) {
	me := p.Comm.Rank()
	for _, r := range holders {
		if p.Hosts[r] == p.Hosts[me] && exists(path) {
			return nil, nil
		}
	}
	var last error
	for i := range holders { // ranks begin with different ones
		at, err := p.Open(ctx, holders[(i+me)%len(holders)], path)
		if err == nil {
			return at, nil
		}
		last = err
	}
	return nil, last
}

// AttachAway makes the parts of a checkpoint that this host lacks readable from the other hosts.
// A checkpoint that rank 0 has committed may reach the others some moments later.
func (p *Volumes) AttachAway(ctx context.Context, c *checkpoint.Checkpoint) error {
	for begin := time.Now(); ; {
		err := c.Attach(func(path string, f checkpoint.File) (checkpoint.Content, error) {
			if exists(path) {
				return nil, nil
			}
			var ranks []int
			for r, h := range p.Hosts {
				switch {
				case slices.Index(p.Hosts, h) != r || h == p.Hosts[p.Comm.Rank()]:
				case slices.Contains(f.Hosts, h):
					ranks = slices.Insert(ranks, 0, r)
				default:
					ranks = append(ranks, r)
				}
			}
			return p.attach(ctx, path, ranks)
		})
		if !errors.Is(err, fs.ErrNotExist) || time.Since(begin) > patience {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// openOnAllRanks opens, on every rank, the checkpoint that rank 0 has opened. Hosts that lack its
// manifest, or the manifest of one of its bases, get it.
func (p *Volumes) openOnAllRanks(c *checkpoint.Checkpoint) (*checkpoint.Checkpoint, error) {
	type link struct {
		Dir      string
		Manifest []byte
	}
	var links []link
	var text []byte
	if p.Comm.Rank() == 0 {
		for _, x := range c.Chain() {
			b, err := regular.ReadFile(filepath.Join(x.Dir(), manifest), maxManifest)
			if err != nil {
				return nil, err
			}
			links = append(links, link{x.Dir(), b})
		}
		var err error
		if text, err = json.Marshal(links); err != nil {
			return nil, err
		}
	}
	text, err := collective.BroadcastBytes(p.Comm, text, 0, maxReport)
	if err != nil {
		return nil, err
	}
	if p.Comm.Rank() == 0 {
		return c, p.agree(nil)
	}
	if err := json.Unmarshal(text, &links); err != nil || len(links) == 0 {
		return nil, fmt.Errorf("checkpoint of rank 0: %d links: %v", len(links), err)
	}
	if p.leadsHost() {
		for _, x := range links {
			have, e := regular.ReadFile(filepath.Join(x.Dir, manifest), maxManifest)
			if os.IsNotExist(e) {
				e = checkpoint.Adopt(filepath.Dir(x.Dir), x.Manifest)
			} else if e == nil && !bytes.Equal(have, x.Manifest) {
				e = fmt.Errorf("%s is not the checkpoint that host %s has under this name: move it away", x.Dir, p.Hosts[0])
			}
			if e != nil && err == nil {
				err = e
			}
		}
	}
	if err := p.agree(err); err != nil {
		return nil, err
	}
	return checkpoint.Open(links[len(links)-1].Dir)
}

// inspected is what a rank has found of its share of the parts on its host, by partOf.
type inspected struct {
	Intact  []string
	Damaged map[string]string
}

// inspect examines this rank's share of the parts on its host: each has one part in as many
// as there are ranks on the host.
func (p *Volumes) inspect(ctx context.Context, c *checkpoint.Checkpoint, verify bool) (x inspected) {
	x.Damaged = map[string]string{}
	mine, of := 0, 0
	for r, h := range p.Hosts {
		if h == p.Hosts[p.Comm.Rank()] {
			if r == p.Comm.Rank() {
				mine = of
			}
			of++
		}
	}
	for _, link := range c.Chain() {
		away := link.Away()
		for i, f := range link.Manifest().Files {
			if i%of != mine {
				continue
			}
			name, err := partOf(link, f), error(nil)
			lacks := slices.ContainsFunc(away, func(a checkpoint.File) bool { return a.Name == f.Name })
			if verify || lacks {
				err = link.VerifyOwn(ctx, i) // of a missing part: nil
			}
			switch {
			case err != nil:
				x.Damaged[name] = shortened(err)
			case !lacks:
				x.Intact = append(x.Intact, name)
			}
		}
	}
	return x
}

// shortened returns the text of an error, cut to the length of a report.
func shortened(err error) string {
	text := err.Error()
	return text[:min(len(text), maxFault)]
}
