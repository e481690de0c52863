package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/rank"
)

// ErrClosed is the error of calls on a communicator after Close.
var ErrClosed = errors.New("nccl: the communicator is closed")

// Results of the library that are handled.
const (
	success     = 0
	remoteError = 6
	inProgress  = 7
)

// firstChannel is the channel under which the calls of the first communicator are compared.
// Channels of a Transport are below.
const firstChannel = 100

// Comm is a communicator: this rank among others, on one device.
type Comm struct {
	owner      *owner
	rank, size int
	channel    int
	part       uint32 // of Split: equal on its ranks, and of other parts other

	over atomic.Pointer[failure] // why nothing is launched any more

	mu     sync.Mutex // held in the library
	native nativeComm
	freed  bool // closed or aborted
	splits uint64

	noting sync.Mutex // never held in the library, so that heartbeats do not wait for it
	ring   ring
	still  struct {
		n        uint64 // calls when it was last looked at
		since    time.Time
		reported bool
	}
}

type failure struct{ err error }

// Rank returns this rank, from 0 to Size−1.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Err returns why the communicator launches nothing any more, or nil. Any goroutine may
// call it.
func (c *Comm) Err() error {
	if f := c.over.Load(); f != nil {
		return f.err
	}
	return nil
}

// stop lets no further call begin. The first cause stays.
func (c *Comm) stop(cause error) { c.over.CompareAndSwap(nil, &failure{cause}) }

// Launch enqueues calls on a stream of the communicator's device, several of them as one
// group. It does not wait for them: Wait does. Ranks must make their collective calls in
// the same order; calls of one group to and from several ranks run at once. It panics if a
// call has no valid type, count or peer.
func (c *Comm) Launch(stream Stream, calls ...Call) error {
	for i := range calls {
		calls[i].check(c.size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil || len(calls) == 0 {
		return err
	}
	c.note(stream, calls)
	runtime.LockOSThread() // until the call is done: another call on the thread would be rejected
	defer runtime.UnlockOSThread()
	var rc int
	if len(calls) == 1 {
		rc = c.native.launch(stream, &calls[0])
	} else {
		rc = c.native.group(stream, calls)
	}
	if rc == success {
		return nil
	}
	rc, err := c.waitDone(context.Background(), c.native, rc)
	return c.ended(calls[0].String(), c.native, rc, err)
}

func (c *Comm) note(stream Stream, calls []Call) {
	c.noting.Lock()
	for i := range calls {
		c.ring.add(stream, &calls[i])
	}
	c.noting.Unlock()
}

// waitDone waits until the library is done with a non-blocking call on n, whose last result
// was rc. It returns the final result, or why it stopped waiting.
func (c *Comm) waitDone(ctx context.Context, n nativeComm, rc int) (int, error) {
	for p := (pause{}); rc == inProgress; rc = n.state() {
		if err := c.interrupted(ctx); err != nil {
			return rc, err
		}
		p.wait()
	}
	return rc, nil
}

// ended returns how a call on n ended, which settle has waited for.
func (c *Comm) ended(doing string, n nativeComm, rc int, err error) error {
	if err == nil && rc != success {
		return c.fail(doing, rc, n.text())
	}
	return err
}

// interrupted returns why a wait is to end.
func (c *Comm) interrupted(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("nccl: rank %d: %w", c.rank, context.Cause(ctx))
	}
	return nil
}

// fail makes an error the end of the communicator. If it may be the loss of another rank,
// it gives the job time for a verdict that names that rank.
func (c *Comm) fail(doing string, rc int, text string) error {
	var err error = &Error{Doing: doing, Rank: c.rank, Code: rc, Text: text}
	if m := c.owner.member; m != nil && rc == remoteError && c.Err() == nil {
		late := time.NewTimer(lossTime)
		defer late.Stop()
		select {
		case <-m.Session.Aborted():
			err = m.Session.Err()
		case <-late.C:
		}
	}
	c.stop(err)
	return c.Err()
}

// Wait returns when all calls that were launched on the stream are complete, or with the
// reason why they will not be. After an error the communicator launches nothing any more,
// unless ctx has ended.
func (c *Comm) Wait(ctx context.Context, stream Stream) error {
	c.noting.Lock()
	n := c.ring.n
	c.noting.Unlock()
	for p := (pause{}); ; p.wait() {
		if err := c.interrupted(ctx); err != nil {
			return err
		}
		switch done, err := c.query(stream); {
		case err != nil:
			return err
		case done:
			c.noting.Lock()
			c.ring.complete(stream, n)
			c.noting.Unlock()
			return nil
		}
	}
}

// query reports whether a stream is complete and NCCL has no error.
func (c *Comm) query(stream Stream) (done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return false, err
	}
	rc := c.native.query(stream)
	if rc < 0 {
		return false, c.fail(c.pending(), rc, c.native.text())
	}
	return rc == 0, c.asynchronous()
}

// asynchronous returns an error that NCCL found after a call had been launched. The caller
// holds mu.
func (c *Comm) asynchronous() error {
	if rc := c.native.state(); rc != success && rc != inProgress {
		return c.fail(c.pending(), rc, c.native.text())
	}
	return nil
}

// poll is asynchronous, for the goroutine that watches. A call that is being launched finds
// its error itself.
func (c *Comm) poll() error {
	if c.Err() != nil || !c.mu.TryLock() {
		return nil
	}
	defer c.mu.Unlock()
	if c.Err() != nil {
		return nil
	}
	return c.asynchronous()
}

// pending describes the oldest call that is not known to be complete.
func (c *Comm) pending() string {
	c.noting.Lock()
	defer c.noting.Unlock()
	if e, ok := c.ring.pending(); ok {
		return fmt.Sprintf("%v, call %d", e.Call, e.seq)
	}
	return "between calls"
}

// Split parts the ranks of c into smaller groups: those that give the same color form one,
// ordered by key and, where keys are equal, by their rank in c. A rank with a negative
// color is in none and gets nil. Every rank of c calls Split. The parts are communicators
// of their own, whose calls are compared among their ranks. After an error, also if ctx has ended,
// c launches nothing any more.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	color = max(color, -1)
	doing := Call{Kind: split, Place: fmt.Sprintf("color %d, key %d", color, key)}
	c.note(0, []Call{doing})
	c.splits++
	n := c.owner.lib.native.newComm(c.owner.device)
	if err := onThread(func() error { return c.split(ctx, n, doing, color, key) }); err != nil {
		c.stop(err)
		n.drop()
		return nil, err
	}
	if !n.exists() {
		n.free()
		return nil, nil
	}
	part := &Comm{owner: c.owner, native: n, part: partID(c.part, c.splits, color)}
	var rc int
	if part.rank, part.size, rc = n.world(); rc != success {
		n.drop()
		return nil, c.fail(doing.String(), rc, n.text())
	}
	return part, c.owner.add(part)
}

// split makes n a part of c, and waits until both are ready.
func (c *Comm) split(ctx context.Context, n nativeComm, doing Call, color, key int) error {
	rc, err := c.waitDone(ctx, c.native, c.native.split(color, key, n))
	err = c.ended(doing.String(), c.native, rc, err)
	if err == nil && n.exists() {
		rc, err = c.waitDone(ctx, n, n.state())
		err = c.ended(doing.String(), n, rc, err)
	}
	return err
}

// drop ends a communicator that was given up. Its memory is not freed, because NCCL may still
// write to it.
func (n nativeComm) drop() {
	if n.exists() {
		go n.abort()
	}
}

// partID distinguishes the calls of one part from the calls of others.
func partID(parent uint32, number uint64, color int) uint32 {
	h := fnv.New32a()
	b := binary.LittleEndian.AppendUint32(nil, parent)
	b = binary.LittleEndian.AppendUint64(b, number)
	h.Write(binary.LittleEndian.AppendUint64(b, uint64(color)))
	return max(h.Sum32(), 1)
}

// Close waits until all ranks have completed their calls, and frees the communicator. Every
// rank calls it. After an error, or if ctx ends first, the communicator is aborted.
func (c *Comm) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.Err()
	if err == nil {
		rc, interrupted := c.waitDone(ctx, c.native, c.native.finalize())
		err = c.ended("Close", c.native, rc, interrupted)
	}
	if err == nil {
		if rc := c.native.destroy(); rc != success {
			err = c.fail("Close", rc, c.native.text())
		}
	} else {
		c.native.abort()
	}
	c.stop(ErrClosed)
	c.free()
	c.owner.remove(c)
	return err
}

// free gives the memory back. The caller holds mu.
func (c *Comm) free() {
	c.freed = true
	c.native.free()
}

// abort ends the communicator, which has stopped. It may wait for other ranks.
func (c *Comm) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return
	}
	if c.native.exists() {
		c.native.abort()
	}
	c.free()
}

// standstill returns the calls that are to be compared, once for each time that none begins
// for a second while the last are not complete. limit is the largest number of calls.
func (c *Comm) standstill(now time.Time, limit int) (all []rank.Call) {
	c.noting.Lock()
	defer c.noting.Unlock()
	s := &c.still
	if s.n != c.ring.n {
		s.n, s.since, s.reported = c.ring.n, now, false
		return nil
	}
	if s.reported || now.Sub(s.since) < stillTime {
		return nil
	}
	calls := c.ring.compared()
	if len(calls) > limit {
		return nil // with the next heartbeat
	}
	s.reported = true
	for _, e := range calls {
		all = append(all, rank.Call{
			Channel: firstChannel + c.channel, Part: c.part, Seq: e.seq, Hash: e.hash(),
			Name: "NCCL " + e.Call.String(), Last: e.seq == c.ring.seq,
		})
	}
	return all
}

// record lists the last calls for a reader.
func (c *Comm) record() string {
	c.noting.Lock()
	defer c.noting.Unlock()
	return fmt.Sprintf("communicator %d of %d ranks, rank %d:\n%v", c.channel, c.size, c.rank, &c.ring)
}

// pause is a wait that grows: what is awaited is mostly done within microseconds.
type pause struct{ n int }

func (p *pause) wait() {
	p.n++
	if p.n < 20 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(p.n)*time.Microsecond, time.Millisecond))
}
