package collective

// Shape is the number of ranks of a group and their distribution over hosts.
type Shape struct {
	Size    int  // number of ranks
	Hosts   int  // number of hosts; 0: unknown
	Most    int  // ranks of the largest host
	Least   int  // ranks of the smallest host
	Windows bool // all ranks share memory; if the hosts are known, all ranks of each host do
}

// Costs is the cost model by which algorithms are chosen.
type Costs struct {
	Local Level // between the ranks of a host; of windows if they share memory
	Links Level // between hosts, or between all ranks if the hosts are unknown

	// Take, if it is not Windows, is the algorithm of every call by messages that supports
	// it. It is for comparing algorithms.
	Take Algorithm
}

// Level is the cost of an exchange round between some ranks. A round in which each rank
// sends and receives b bytes at once takes Alpha + b·Beta seconds, and b·Gamma more if the
// b bytes are summed or copied. (Hockney, "The communication challenge for MPP", 1994; with
// the reduction added as in Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005.)
type Level struct {
	Alpha float64 // seconds per round
	Beta  float64 // seconds per byte exchanged; between hosts, for all ranks of a host together
	Gamma float64 // seconds per byte reduced

	// Post replaces Alpha for each message except the first if a rank posts small messages
	// to several ranks at once. 0: messages are not posted. See Poster.
	Post float64
}
