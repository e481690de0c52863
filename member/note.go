package member

// note is what a rank tells the others about itself when it joins, so that all choose the
// same transport without exchanging messages.
type note struct {
	Transport string // Auto, Shared or TCP
	Host      string // its name
	Local     int    // ranks that the launcher reports there; 0: unknown
	Listens   bool   // it listens for shared memory with all ranks
	Why       string // why it cannot, if it tried
}

const (
	// maxHost bounds the name of a host, in bytes.
	maxHost = 1 << 8
	// maxWhy bounds the length of a rank's reason, in bytes. A note with both fits into
	// control.Options.Note.
	maxWhy = 1 << 9
)
