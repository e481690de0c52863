package collective

// Neighbour is a Transport that knows where its ranks are.
type Neighbour interface {
	// OneHost reports, on every rank the same, whether all ranks are on one host.
	OneHost() bool
}

// oneHost reports whether all ranks of t are known to be on one host.
func oneHost(t Transport) bool {
	switch w := t.(type) {
	case *subset:
		return oneHost(w.t)
	case Neighbour:
		return w.OneHost()
	}
	return false
}

// Inside a host a round costs little, and what bounds a large allreduce is memory: so it
// goes in pieces, of which a core's cache still has what was summed when it is sent on.
// Between hosts the link bounds it, and each piece would cost as many rounds again. And
// there are hosts whose cores take longer to pass a line from cache to cache than by way
// of memory: with two ranks and an exchange at .8 ns a byte pieces took 1.4 times as
// long, at .2 they took .7.
const (
	pieceBytes = 1 << 20   // of all ranks' parts together
	pieceLeast = 256 << 10 // of a rank's part
	pieceBeta  = .25e-9    // seconds a byte exchanged up to which it pays, times the ranks
)

// pieces returns in how many pieces an allreduce of n bytes goes by the ring. None is
// smaller than what pays for its rounds.
func (c *Comm) pieces(n int) int {
	if !c.near || c.group.costs.Links.Beta > pieceBeta*float64(c.size) {
		return 1
	}
	piece := max(pieceBytes, c.size*pieceLeast)
	return max(1, n/piece)
}
