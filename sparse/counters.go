package sparse

import (
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Counters counts the operations of a store since Open and its current contents. Bytes are
// payload sent between different ranks.
type Counters struct {
	KeysPulled        int64 // values of all bags
	UniqueKeys        int64 // distinct keys of each batch and table
	RemoteUniqueKeys  int64 // of these, keys owned by other ranks
	CountBytesSent    int64 // 8·(3+tables) per peer and Pull; as many are received
	KeyBytesSent      int64 // 8 per remote unique key
	KeyBytesReceived  int64
	RowBytesSent      int64
	RowBytesReceived  int64 // 4·V per remote unique key
	GradBytesSent     int64 // 4·V per remote unique key
	GradBytesReceived int64
	MarkBytesSent     int64 // one eighth per key of another rank that was or could have been answered ahead
	MarkBytesReceived int64

	ReplicaBytesSent int64 // sent by Mirror and Heal; summed over ranks, as many are received

	RowsInserted int64
	RowsHeld     int64 // current, on this rank
	StepsOfRows  int64 // optimizer steps taken, counted by row
	MemoryBytes  int64 // rows, indexes and staged gradients, current
}

// add adds the counts of one exchange.
func (c *Counters) add(x Counters) {
	c.KeysPulled += x.KeysPulled
	c.UniqueKeys += x.UniqueKeys
	c.RemoteUniqueKeys += x.RemoteUniqueKeys
	c.CountBytesSent += x.CountBytesSent
	c.KeyBytesSent += x.KeyBytesSent
	c.KeyBytesReceived += x.KeyBytesReceived
	c.RowBytesSent += x.RowBytesSent
	c.RowBytesReceived += x.RowBytesReceived
	c.MarkBytesSent += x.MarkBytesSent
	c.MarkBytesReceived += x.MarkBytesReceived
}

// BytesSent returns the payload bytes sent to other ranks.
func (c Counters) BytesSent() int64 {
	return c.CountBytesSent + c.KeyBytesSent + c.RowBytesSent + c.GradBytesSent + c.MarkBytesSent + c.ReplicaBytesSent
}

// TableCounters counts the operations and contents of one table on this rank.
type TableCounters struct {
	table.Counters
	Rows  int64 // current
	Bytes int64 // current memory of rows and index, including a copy's

	// CarriedBytes is the number of bytes that this rank has received and sent as an owner
	// for training batches: keys, rows or sums, gradients of other ranks, and copies for
	// Mirror.
	CarriedBytes int64
}
