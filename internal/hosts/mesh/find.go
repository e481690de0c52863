package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
)

const (
	// askTime is the time limit of a question to another agent, and of receiving a request.
	askTime = 5 * time.Second

	// findEvery is the interval at which the roster and the connections are checked.
	findEvery = time.Second

	// maxDials is the maximum number of concurrent attempts.
	maxDials = 16
)

// add adds addresses of a machine. If one is new, the machine is tried at once.
func (b *book) add(id peer.ID, addrs []ma.Multiaddr) {
	b.with(id, func(k *known) {
		for _, a := range addrs {
			if _, err := manet.ToNetAddr(a); err == nil && !slices.ContainsFunc(k.addrs, a.Equal) {
				k.addrs = slices.Insert(k.addrs, 0, a)
				k.addrs = k.addrs[:min(len(k.addrs), agent.MaxAddrs)]
				k.next, k.wait = time.Time{}, minWait
			}
		}
	})
}

// retain removes the machines that are not on the roster.
func (b *book) retain(r agent.Roster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.of {
		if !r.Has(id) && b.of[id].toldBy == "" {
			delete(b.of, id)
		}
	}
}

// addBootstrap parses Config.Bootstrap.
func (m *Mesh) addBootstrap() error {
	for _, text := range m.cfg.Bootstrap {
		machine, addr, ok := strings.Cut(text, "@")
		host, _, err := splitPort(addr)
		if !ok || err != nil || host == "" {
			return fmt.Errorf("agent: -bootstrap %q: give MACHINE@HOST:PORT, with the name or the peer ID of a machine on the roster", text)
		}
		e, ok := m.gate.current().Find(machine)
		if !ok {
			return fmt.Errorf("agent: -bootstrap %q: %s is not on the roster; try: wdlrun agent allow ID -name NAME", text, machine)
		}
		m.book.with(e.ID, func(k *known) { k.bootstrap = append(k.bootstrap, addr) })
	}
	return nil
}

// find keeps a connection to each machine on the roster, until ctx ends.
func (m *Mesh) find(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	m.swarm.Notify(&network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		id := c.RemotePeer()
		go func() {
			m.examine(ctx, id)
			m.exchange(ctx, id)
		}()
	}})
	announcer := announcer{m: m}
	defer announcer.close()
	slots := make(chan struct{}, maxDials)
	stamp := ""
	for {
		stamp = m.reload(stamp)
		announcer.start()
		alone := false
		for _, e := range m.gate.current() {
			if e.ID == m.id || m.connected(e.ID) {
				continue
			}
			alone = true
			if m.due(e.ID) {
				all.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					m.dial(ctx, e.ID)
				})
			}
		}
		for _, id := range m.several() {
			m.examine(ctx, id)
		}
		m.askAgain(ctx)
		if peers := m.swarm.Peers(); alone && len(peers) > 0 {
			id := peers[rand.IntN(len(peers))]
			all.Go(func() { m.exchange(ctx, id) })
		}
		select {
		case <-time.After(m.every):
		case <-ctx.Done():
			return
		}
	}
}

func (m *Mesh) connected(id peer.ID) bool { return m.swarm.Connectedness(id) == network.Connected }

// reload reads the roster if its file has changed, and disconnects machines that are no
// longer on it.
func (m *Mesh) reload(stamp string) string {
	now := ""
	if info, err := os.Stat(filepath.Join(m.cfg.Folder, agent.RosterFile)); err == nil {
		now = fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	}
	if now == stamp {
		return stamp
	}
	roster, err := agent.LoadRoster(m.cfg.Folder)
	if err != nil {
		m.cfg.Log("the previous roster stays in use: %s", strings.TrimPrefix(err.Error(), "agent: "))
		return now
	}
	m.gate.replace(roster)
	m.book.retain(roster)
	for _, id := range m.swarm.Peers() {
		if !roster.Has(id) {
			m.swarm.ClosePeer(id)
		}
	}
	return now
}

// due reports whether it is time to dial a machine, and reserves the attempt for the
// caller.
func (m *Mesh) due(id peer.ID) (due bool) {
	m.book.with(id, func(k *known) {
		due = !k.dialing && !time.Now().Before(k.next)
		k.dialing = k.dialing || due
	})
	return due
}

// dial tries to reach a machine.
func (m *Mesh) dial(ctx context.Context, id peer.ID) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	var addrs []ma.Multiaddr
	var names []string
	m.book.with(id, func(k *known) { addrs, names = slices.Clone(k.addrs), slices.Clone(k.bootstrap) })
	var err error
	for _, n := range names {
		more, bad := multiaddrs(n)
		addrs, err = append(addrs, more...), errors.Join(err, bad)
	}
	if len(addrs) > 0 {
		m.swarm.Peerstore().ClearAddrs(id)
		m.swarm.Peerstore().AddAddrs(id, addrs, peerstore.TempAddrTTL)
		m.swarm.Backoff().Clear(id)
		_, err = m.swarm.DialPeer(ctx, id)
	} else if err == nil {
		err = errors.New("its address is unknown: start its agent in the same local network, or give -bootstrap here")
	}
	m.book.with(id, func(k *known) {
		k.dialing = false
		if err != nil {
			k.fault = causeOf(err)
		}
		k.next = time.Now().Add(k.wait)
		k.wait = min(2*k.wait, maxWait) // until an exchange succeeds
	})
}

// causeOf returns why a machine could not be reached, and what to try, in one line.
func causeOf(err error) string {
	var all *swarm.DialError
	if !errors.As(err, &all) || len(all.DialErrors) == 0 {
		return err.Error()
	}
	var causes []string
	for _, d := range all.DialErrors {
		cause := d.Cause.Error()
		cause = cause[strings.LastIndex(cause, ": ")+1:]
		causes = append(causes, hostPort(d.Address)+": "+strings.TrimSpace(cause))
	}
	const most = 3
	if n := len(causes) - most; n > 0 {
		causes = append(causes[:most], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(causes, ", ") + startThere
}

// exchange asks a machine to describe itself and the addresses that it knows, and sends
// those known here.
func (m *Mesh) exchange(ctx context.Context, id peer.ID) (agent.Machine, error) {
	a, err := m.askStatus(ctx, id)
	if err == nil && len(a.Machines) != 1 {
		err = errors.New("its agent did not describe itself")
	}
	if err != nil {
		err = m.unanswered(err)
		m.book.with(id, func(k *known) { k.fault = err.Error() })
		return agent.Machine{}, err
	}
	m.addPeers(a.Peers)
	m.hearOwn(id, a.Twins)
	m.book.with(id, func(k *known) { k.fault, k.wait, k.host = "", minWait, a.Machines[0].Host })
	return a.Machines[0], nil
}

// startThere is the advice for a machine that cannot be reached.
const startThere = "; on that machine, try: wdlrun agent"

// closed are the errors by which a connection may end that the other machine has closed:
// which of them is returned depends on what this machine was doing.
var closed = []error{network.ErrNoConn, network.ErrReset, io.EOF, syscall.ECONNRESET, syscall.EPIPE}

// unanswered explains why a machine did not answer a request. An agent closes the
// connection to a peer that is not on its roster as soon as it knows the peer.
func (m *Mesh) unanswered(err error) error {
	is := func(cause error) bool { return errors.Is(err, cause) }
	switch {
	case is(os.ErrDeadlineExceeded), is(context.DeadlineExceeded):
		return errors.New("its agent did not answer: it may be stopped or overloaded" + startThere)
	case slices.ContainsFunc(closed, is):
		return fmt.Errorf("its agent closed the connection: this machine may not be on its roster; on that machine, try: wdlrun agent allow %s", m.id)
	}
	return fmt.Errorf("its agent did not answer: %w; on that machine, try: wdlrun agent list", err)
}

// addPeers adds the addresses of machines on the roster.
func (m *Mesh) addPeers(peers []agent.Peer) {
	roster := m.gate.current()
	for _, p := range peers {
		id, err := peer.Decode(p.ID)
		if err != nil || id == m.id || !roster.Has(id) {
			continue
		}
		var addrs []ma.Multiaddr
		for _, text := range p.Addrs[:min(len(p.Addrs), agent.MaxAddrs)] {
			if a, err := ma.NewMultiaddr(text); err == nil {
				addrs = append(addrs, a)
			}
		}
		m.book.add(id, addrs)
	}
}

// peers returns this machine and those that it knows, with their addresses.
func (m *Mesh) peers() []agent.Peer {
	all := []agent.Peer{{ID: m.id.String(), Addrs: texts(m.addrs()), Life: m.life}}
	m.book.mu.Lock()
	defer m.book.mu.Unlock()
	for id, k := range m.book.of {
		if len(k.addrs) > 0 {
			all = append(all, agent.Peer{ID: id.String(), Addrs: texts(k.addrs)})
		}
	}
	return all
}

func texts(addrs []ma.Multiaddr) (all []string) {
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return all
}

// HandlePeerFound implements mdns.Notifee.
func (m *Mesh) HandlePeerFound(p peer.AddrInfo) {
	if p.ID == m.id {
		m.announced(p)
	} else if m.gate.admits(p.ID) {
		m.book.add(p.ID, p.Addrs[:min(len(p.Addrs), agent.MaxAddrs)])
	}
}

// A cloned image or a shared home gives two machines one key, and so one ID. Each process of an agent has
// a random Life. If several connections of one ID lead to different lives that answer, these are several
// machines: neither is used, and neither may start jobs here, until one of them is gone.

// examine compares the machines behind the connections of an ID, if there are several.
func (m *Mesh) examine(ctx context.Context, id peer.ID) {
	conns := m.swarm.ConnsToPeer(id)
	twins := ""
	if len(conns) > 1 {
		twins = m.compare(ctx, id, conns)
	}
	m.book.with(id, func(k *known) {
		if k.twins != twins && twins != "" {
			m.cfg.Log("%s: %s", m.nameOf(id), twins)
		} else if k.twins != twins {
			m.cfg.Log("%s: one machine has this ID again", m.nameOf(id))
		}
		k.twins = twins
	})
}

// compare returns a sentence if different machines answer on connections of one ID.
func (m *Mesh) compare(ctx context.Context, id peer.ID, conns []network.Conn) string {
	at := map[string]string{} // address and host by life
	for _, c := range conns {
		a, err := m.askOn(ctx, id, c.NewStream)
		if err != nil || len(a.Machines) != 1 || len(a.Peers) == 0 || a.Peers[0].Life == "" {
			continue // it is about to be closed, or the agent is of an earlier version
		}
		at[a.Peers[0].Life] = fmt.Sprintf("%s (host %s)", hostPort(c.RemoteMultiaddr()), a.Machines[0].Host)
	}
	if len(at) < 2 {
		return ""
	}
	var all []string
	for _, place := range at {
		all = append(all, place)
	}
	slices.Sort(all)
	return fmt.Sprintf("several machines have its ID, at %s: none of them is used; on all but one, remove ~/.config/wdlrun/%s and start the agent again, then allow the new ID",
		strings.Join(all, " and "), agent.KeyFile)
}

// several are the machines to examine: those with several connections, or with several machines at the last look.
func (m *Mesh) several() (ids []peer.ID) {
	for _, e := range m.gate.current() {
		twins := ""
		m.book.with(e.ID, func(k *known) { twins = k.twins })
		if e.ID != m.id && (twins != "" || len(m.swarm.ConnsToPeer(e.ID)) > 1) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// twinsOf returns why the ID of a machine is not used, or "".
func (m *Mesh) twinsOf(id peer.ID) (twins string) {
	m.book.with(id, func(k *known) { twins = k.twins })
	return twins
}

// hearOwn remembers what another agent reports about the ID of this machine.
func (m *Mesh) hearOwn(from peer.ID, twins string) {
	was := m.twinsOf(m.id)
	if twins != "" && was == "" {
		m.cfg.Log("%s reports about this machine: %s", m.nameOf(from), twins)
	}
	m.book.with(m.id, func(k *known) {
		if twins != "" || k.toldBy == from {
			k.twins, k.toldBy = twins, from
		}
	})
}

// askAgain asks whether the ID of this machine is that of one machine again.
func (m *Mesh) askAgain(ctx context.Context) {
	var from peer.ID
	m.book.with(m.id, func(k *known) {
		if k.twins != "" {
			from = k.toldBy
		}
	})
	if from == "" {
		return
	}
	if _, err := m.exchange(ctx, from); err != nil && !m.connected(from) {
		m.hearOwn(from, "")
	}
}

// announced reports, once for an address, that another machine announces the ID of this one by mDNS.
func (m *Mesh) announced(p peer.AddrInfo) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	for _, a := range p.Addrs {
		ip, err := manet.ToIP(a)
		if err != nil || slices.ContainsFunc(own, func(o net.Addr) bool { n, ok := o.(*net.IPNet); return ok && n.IP.Equal(ip) }) {
			return // this machine
		}
	}
	if len(p.Addrs) > 0 && m.gate.reports(m.id) {
		m.cfg.Log("the ID of this machine is announced at %s too: if that is another machine, remove ~/.config/wdlrun/%s on one of them, start its agent again, and allow the new ID", hostPort(p.Addrs[0]), agent.KeyFile)
	}
}

// announcer announces an agent by mDNS, as soon as the machine has a network.
type announcer struct {
	host.Host // mostly unused by mDNS
	m         *Mesh
	service   mdns.Service
	tried     time.Time
}

func (a *announcer) ID() peer.ID              { return a.m.id }
func (a *announcer) Network() network.Network { return a.m.swarm }

// start starts mDNS, unless it runs or has failed recently.
func (a *announcer) start() {
	if !a.m.cfg.MDNS || a.service != nil || a.m.cfg.Listen == Nowhere || time.Since(a.tried) < maxWait {
		return
	}
	s := mdns.NewMdnsService(a, "_wdlrun._udp", a.m)
	if err := s.Start(); err == nil {
		a.service = s
	} else if a.tried.IsZero() {
		a.m.cfg.Log("mDNS cannot be used yet: %v; it is tried every %v; -bootstrap names machines too", err, maxWait)
	}
	a.tried = time.Now()
}

func (a *announcer) close() {
	if a.service != nil {
		a.service.Close()
	}
}

// askStatus asks another agent to describe itself.
func (m *Mesh) askStatus(ctx context.Context, id peer.ID) (agent.Answer, error) {
	return m.askOn(ctx, id, func(ctx context.Context) (network.Stream, error) { return m.swarm.NewStream(ctx, id) })
}

// askOn is askStatus on a stream of one of the connections.
func (m *Mesh) askOn(ctx context.Context, id peer.ID, open func(context.Context) (network.Stream, error)) (a agent.Answer, err error) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "connected"), askTime)
	defer cancel()
	s, err := open(ctx)
	if err != nil {
		return a, err
	}
	defer s.Close()
	s.SetDeadline(time.Now().Add(askTime))
	if err := hosts.WriteJSON(s, agent.Request{What: agent.Status, Twins: m.twinsOf(id), Peers: m.peers()}, agent.MaxMessage); err != nil {
		s.Reset()
		return a, err
	}
	if err := hosts.ReadJSON(s, &a, agent.MaxMessage); err != nil {
		s.Reset()
		return a, err
	}
	return a, nil
}

// nameOf returns the name of a peer for the log.
func (m *Mesh) nameOf(id peer.ID) string {
	if name := m.gate.current().NameOf(id); name != "" {
		return name
	}
	return id.String()
}
