package tcp

import (
	"encoding/binary"
	"net"
	"os"
)

func newTransport(cfg Config, links map[linkID]net.Conn) (*Transport, error) {
	t := &Transport{
		rank: cfg.Rank, size: len(cfg.Peers), streams: cfg.Streams, stripe: cfg.stripe,
		peers: make([]*peer, len(cfg.Peers)), slots: make([]slot, cfg.Channels),
		ended: make(chan struct{}), quit: make(chan struct{}),
	}
	for r := range t.peers {
		if r == t.rank {
			continue
		}
		p := &peer{rank: r, control: &control{conn: links[linkID{r, linkControl}]}, near: sameHost(links[linkID{r, linkControl}]), left: make(chan struct{}), begun: make([]begun, cfg.Channels)}
		t.peers[r] = p
		if p.near {
			t.near++
		}
		for i := range cfg.Channels * cfg.Streams {
			l, err := newLink(p, links[linkID{r, uint16(i)}])
			if err != nil {
				t.closeLinks()
				return nil, err
			}
			t.direct = l.sock != nil
			p.data = append(p.data, l)
		}
	}
	for i := range t.slots {
		t.slots[i].init(cfg.Streams)
	}
	t.start()
	return t, nil
}

// start starts the goroutines that serve the links.
func (t *Transport) start() {
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		t.wg.Go(func() { t.readPeer(p) })
		for _, l := range p.data {
			if !t.direct {
				t.wg.Go(func() { t.writer(l) })
			}
		}
		if p.near {
			p.control.write(controlOf(kindProcess, binary.LittleEndian.AppendUint32(nil, uint32(os.Getpid()))))
		}
	}
	if t.size > 1 {
		t.wg.Go(t.watch)
		for i := range t.slots {
			s := &t.slots[i]
			for k := 1; k < t.streams; k++ {
				t.wg.Go(func() { t.serve(s, k) })
			}
		}
	}
}
