package collective

// Exchanger speaks for a Comm to packages that know numbers and bytes and nothing
// of this package, such as sparse: its methods are calls on the Comm.
type Exchanger struct{ *Comm }

// AllToAll sends len(send)/Size numbers to every rank and receives as many.
func (e Exchanger) AllToAll(send, recv []int64) error { return AllToAll(e.Comm, send, recv) }

// AllToAllV sends sendCounts[r] bytes to rank r and receives recvCounts[r] from
// it. Both buffers are contiguous in rank order.
func (e Exchanger) AllToAllV(send []byte, sendCounts []int, recv []byte, recvCounts []int) error {
	return AllToAllV(e.Comm, send, sendCounts, recv, recvCounts)
}

// AllToAllVisit is AllToAllV that shows visit each rank's part where it lies, in
// the order of ranks.
func (e Exchanger) AllToAllVisit(send []byte, sendCounts, recvCounts []int, visit func(from int, part []byte) error) error {
	return AllToAllVisit(e.Comm, send, sendCounts, recvCounts, visit)
}

// Alloc returns zeroed memory whose parts the other ranks read where they lie, or
// ordinary memory if the ranks share none. Every rank calls it.
func (e Exchanger) Alloc(bytes int) ([]byte, error) { return Alloc[byte](e.Comm, bytes) }
