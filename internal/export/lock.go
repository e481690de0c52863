package export

import (
	"context"
	"fmt"
	"time"
)

// Locks of a folder of versions.
const (
	writerLock = ".lock"   // held by a training or an export as long as it writes versions
	ledgerLock = ".ledger" // held while names of versions, pins or the hold change
)

// ledgerWait is how long a process waits for the lock of the ledger.
const ledgerWait = 10 * time.Second

// lock makes this process the only one that writes versions of a model, until unlock or its end.
func lock(root string) (unlock func(), err error) {
	unlock, busy, err := lockFile(root, writerLock)
	if busy {
		err = fmt.Errorf("another export writes to %s: wait for it", root)
	}
	return unlock, err
}

// lockLedger waits until no other process changes which versions exist, and prevents that until
// unlock.
func lockLedger(ctx context.Context, root string) (unlock func(), err error) {
	for end := time.Now().Add(ledgerWait); ; {
		unlock, busy, err := lockFile(root, ledgerLock)
		if !busy {
			return unlock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("another process has changed the versions for %v: try again", ledgerWait)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
