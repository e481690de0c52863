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
