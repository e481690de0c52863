package member

import (
	"context"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// The transports of collective calls.
const (
	Auto   = "auto" // shared memory inside a host if all its ranks support it, else TCP
	Shared = "shm"  // shared memory, or an error
	TCP    = "tcp"
	Hosts  = "shm+tcp" // the choice of Auto for several hosts with several ranks each
)

// Options are the options of a member. The zero value is the default. Transport must be the
// same on all ranks.
type Options struct {
	Control   control.Options
	Transport string // "": as set by the launcher, else Auto

	// Encrypt makes the ranks encrypt TCP connections (package peertls). Either all ranks
	// set it or none. They also encrypt if the launcher demands it. Shared memory is not
	// encrypted: it never leaves the host.
	Encrypt bool

	// Streams is the number of TCP connections between two ranks on a channel
	// (tcp.Config.Streams). 0: as set by the launcher, else 1. It is the same on all ranks.
	Streams int

	// Host is the name of this host, by which ranks find the ranks that share it; "": the
	// system's.
	Host string

	// Costs, if not nil, determine the algorithms of calls. Otherwise the ranks measure
	// them (collective.Measure), which takes milliseconds. Either all ranks set equal Costs
	// or none.
	Costs *collective.Costs

	// Warn, if not nil, is called once on rank 0 with the reason, in one line, why Auto
	// does not use shared memory.
	Warn func(line string)
}

// Validate returns an error for an unknown transport or an invalid number of streams.
func (o Options) Validate() error {
	switch o.Transport {
	case "", Auto, Shared, TCP:
	default:
		return fmt.Errorf("member: transport %q is unknown; there are %s, %s and %s", o.Transport, Auto, Shared, TCP)
	}
	if o.Streams < 0 || o.Streams > tcp.MaxStreams {
		return fmt.Errorf("member: %d streams: give 1 to %d", o.Streams, tcp.MaxStreams)
	}
	return nil
}

// Completed returns the options with missing ones taken from the environment that the
// launcher set. An error names the variable or option and its valid values.
func (o Options) Completed(getenv func(string) string) (Options, error) {
	env, err := rank.LinksFromEnv(getenv)
	if err != nil {
		return o, err
	}
	if err := (Options{Transport: env.Transport}).Validate(); err != nil && o.Transport == "" {
		return o, fmt.Errorf("%w: change WDLRUN_TRANSPORT or unset it", err)
	}
	if err := (Options{Streams: env.Streams}).Validate(); err != nil && o.Streams == 0 {
		return o, fmt.Errorf("%w: change WDLRUN_STREAMS or unset it", err)
	}
	if o.Transport == "" {
		o.Transport = env.Transport
	}
	if o.Streams == 0 {
		o.Streams = env.Streams
	}
	o.Encrypt = o.Encrypt || env.Encrypt
	if o.Control.Ports == "" {
		o.Control.Ports = env.Ports
	}
	return o, o.Validate()
}

// Transports that a rank may choose.
const (
	choseTCP = iota
	choseAuto
	choseShared
)

// maxWhy bounds the length of a rank's reason, in bytes.
const maxWhy = 1 << 10

// share replaces the TCP links by shared memory if every rank supports it. The ranks agree
// on each step over TCP before the next, so that all decide alike.
func (m *Member) share(ctx context.Context, opts Options) error {
	choice := []int32{choseAuto}
	switch opts.Transport {
	case TCP:
		choice[0] = choseTCP
	case Shared:
		choice[0] = choseShared
	}
	most := []int32{-choice[0]}
	if err := collective.AllReduce(m.Comm, choice, collective.Min); err != nil {
		return err
	}
	if err := collective.AllReduce(m.Comm, most, collective.Min); err != nil {
		return err
	}
	if -most[0] != choice[0] {
		return fmt.Errorf("member: connect: rank %d: ranks have different transports; give all the same", m.World.Rank)
	}
	if m.World.Size == 1 || choice[0] == choseTCP {
		return nil
	}
	place, err := m.locate(opts.Host)
	if err != nil || choice[0] == choseAuto && place.least == 1 {
		return err
	}
	if choice[0] == choseShared && place.hosts > 1 {
		return fmt.Errorf("member: connect: rank %d: ranks are on %d hosts, which share no memory; use transport %s or %s", m.World.Rank, place.hosts, Auto, TCP)
	}
	t, who, why, err := m.tryShare(ctx, place)
	switch {
	case err != nil:
		return err
	case why == "" && place.hosts > 1:
		m.local, m.Comm, m.Transport = t, collective.NewHosts(m.links, t, place.hostOf).After(m.Comm), Hosts
		return nil
	case why == "":
		links := m.links
		m.links, m.Comm, m.Transport = t, collective.New(t), Shared
		return links.Close()
	case choice[0] == choseShared:
		return fmt.Errorf("member: connect: rank %d cannot share memory: %s; use transport %s or %s", who, why, Auto, TCP)
	}
	if opts.Warn != nil && m.World.Rank == 0 {
		opts.Warn(fmt.Sprintf("ranks exchange over TCP %s: rank %d cannot share memory: %s", place.where(), who, why))
	}
	return nil
}

// Memory returns the number of bytes that this rank shares on its host, and how many of
// them are in preallocated huge pages.
func (m *Member) Memory() (bytes, huge int64) {
	for _, t := range []collective.Transport{m.links, m.local} {
		if s, ok := t.(interface{ Memory() (bytes, huge int64) }); ok {
			return s.Memory()
		}
	}
	return 0, 0
}

// place describes the hosts of the ranks.
type place struct {
	hostOf      []int // number of each rank's host, by first occurrence
	hosts       int
	index, size int // local rank and local size of this rank
	least       int // ranks of the smallest host
}

// maxHost bounds the name of a host, in bytes.
const maxHost = 1 << 8

// locate determines the hosts of all ranks from their names.
func (m *Member) locate(name string) (p place, err error) {
	local := 0
	if name == "" {
		name, local = m.World.Host, m.World.LocalSize
	}
	name = fmt.Sprintf("%d %s", local, name)
	names, err := collective.AllGatherBytes(m.Comm, []byte(name[:min(len(name), maxHost)]), maxHost)
	if err != nil {
		return p, err
	}
	return newPlace(names, m.World.Rank), nil
}

// newPlace parses the names of the ranks' hosts, each preceded by the number of ranks that
// the launcher reports there, or 0. If that number differs from the ranks with the name,
// two hosts have the same name, and no rank is assumed to share its host.
func newPlace(names [][]byte, rank int) (p place) {
	number := map[string]int{}
	var counts []int
	for r, b := range names {
		h, known := number[string(b)]
		if !known {
			h = len(counts)
			number[string(b)] = h
			counts = append(counts, 0)
		}
		if r == rank {
			p.index = counts[h]
		}
		counts[h]++
		p.hostOf = append(p.hostOf, h)
	}
	p.hosts, p.size, p.least = len(counts), counts[p.hostOf[rank]], slices.Min(counts)
	for r, h := range p.hostOf {
		announced := 0
		fmt.Sscan(string(names[r]), &announced)
		if announced != 0 && announced != counts[h] {
			p.least = 1
		}
	}
	return p
}

// where returns a description of the place for messages.
func (p place) where() string {
	if p.hosts > 1 {
		return "inside their hosts too"
	}
	return "on this host"
}

// purpose returns the purpose of the key for the shared memory of one host.
func (p place) purpose(rank int) string {
	if p.hosts == 1 {
		return "shared memory"
	}
	return fmt.Sprintf("shared memory of host %d", p.hostOf[rank])
}

// tryShare connects the ranks of each host over shared memory. If one cannot, it cleans up
// and returns its number and the reason on every rank.
func (m *Member) tryShare(ctx context.Context, p place) (t *shm.Transport, who int, why string, err error) {
	l, cause := shm.Listen(shm.Config{
		Rank: p.index, Size: p.size, Key: m.World.Key.Derive(p.purpose(m.World.Rank)), Generation: m.World.Generation,
	})
	if who, why, err = m.agree(cause); err != nil || why != "" {
		if l != nil {
			l.Close()
		}
		return nil, who, why, err
	}
	t, cause = l.Connect(ctx)
	if who, why, err = m.agree(cause); (err != nil || why != "") && t != nil {
		t.Close()
		t = nil
	}
	return t, who, why, err
}

// agree returns the first rank with a cause, and its message, the same on every rank.
func (m *Member) agree(cause error) (who int, why string, err error) {
	var own []byte
	if cause != nil {
		own = []byte(cause.Error())
		own = own[:min(len(own), maxWhy)]
	}
	all, err := collective.AllGatherBytes(m.Comm, own, maxWhy)
	if err != nil {
		return 0, "", err
	}
	for r, b := range all {
		if len(b) > 0 {
			return r, string(b), nil
		}
	}
	return 0, "", nil
}
