package report

import (
	"fmt"
	"slices"
	"time"
)

// LossyLink is a link between two hosts that lost packets for a while.
type LossyLink struct {
	From   string  `json:"from"` // host that sent packets again
	To     string  `json:"to"`
	Resent float64 `json:"resent_share"` // share of the packets sent again, in the windows with losses
	Share  float64 `json:"share"`        // share of the watched time
}

// A link loses packets if lossyShare of the packets in lossyStreak consecutive windows were sent again,
// at least lossyLeast in each. A full queue on the way, which makes the senders slow down, costs
// fewer.
const (
	lossyShare  = .02
	lossyLeast  = 8
	lossyStreak = 2
)

// losses finds links that lose packets. Like watch, it has no clock and no I/O.
type losses struct {
	hosts []string
	links map[[2]string]*loss
	at    time.Duration // watched time: sum of the windows
}

// loss is the state of a link.
type loss struct {
	streak        int
	named         time.Duration // watched time at the last report; 0: never reported
	time          time.Duration // of windows with losses
	packets, lost uint64        // in these windows
	now, nowLost  uint64        // in the current window
}

// lossWords are the words about losses of a rank: the first rank of the host to which most of its
// packets were lost, plus 1, and the packets to that host, sent and sent again.
const lossWords = 3

// Resenter reports the packets of this rank to other hosts since the last call, by rank, and those
// of them that were sent again. It may be nil.
type Resenter func(report func(peer int, packets, again uint64))

// worst returns the words of this rank.
func (r Resenter) worst(hosts []string) (most [lossWords]int64) {
	if r == nil {
		return most
	}
	by := map[string]*[lossWords]int64{}
	r(func(peer int, packets, again uint64) {
		if peer >= len(hosts) {
			return
		}
		h := by[hosts[peer]]
		if h == nil {
			h = &[lossWords]int64{int64(peer) + 1}
			by[hosts[peer]] = h
		}
		h[0], h[1], h[2] = min(h[0], int64(peer)+1), h[1]+int64(packets), h[2]+int64(again)
	})
	for _, h := range by {
		if h[2] > most[2] || h[2] == most[2] && h[2] > 0 && h[0] < most[0] {
			most = *h
		}
	}
	return most
}

// addWindow adds a window with the words of each rank, and returns messages about links.
func (l *losses) addWindow(length time.Duration, by [][lossWords]int64) (lines []string) {
	l.at += length
	for rank, x := range by {
		peer := int(x[0]) - 1
		if peer < 0 || peer >= len(l.hosts) || rank >= len(l.hosts) {
			continue
		}
		link := [2]string{l.hosts[rank], l.hosts[peer]}
		if l.links == nil {
			l.links = map[[2]string]*loss{}
		}
		if l.links[link] == nil {
			l.links[link] = &loss{}
		}
		l.links[link].now += uint64(x[1])
		l.links[link].nowLost += uint64(x[2])
	}
	for _, link := range l.ordered() {
		s := l.links[link]
		packets, lost := s.now, s.nowLost
		s.now, s.nowLost = 0, 0
		if lost < lossyLeast || float64(lost) < float64(lossyShare*float64(packets)) {
			s.streak = 0
			continue
		}
		s.streak++
		s.time += length
		s.packets, s.lost = s.packets+packets, s.lost+lost
		if s.streak < lossyStreak || s.named > 0 && l.at-s.named < slowAgain {
			continue
		}
		s.named = l.at
		lines = append(lines, fmt.Sprintf("the link from host %s to host %s loses packets: %.1f %% were sent again in the last %s; check its cables, network cards and switch ports, or choose another network with -net",
			link[0], link[1], 100*float64(lost)/float64(max(packets, lost)), length.Round(time.Second)))
	}
	return lines
}

// ordered returns the links by name.
func (l *losses) ordered() (all [][2]string) {
	for link := range l.links {
		all = append(all, link)
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return all
}

// report returns the links that were reported.
func (l *losses) report() (all []LossyLink) {
	for _, link := range l.ordered() {
		if s := l.links[link]; s.named > 0 {
			all = append(all, LossyLink{link[0], link[1], float64(s.lost) / float64(max(s.packets, s.lost)), s.time.Seconds() / l.at.Seconds()})
		}
	}
	return all
}
