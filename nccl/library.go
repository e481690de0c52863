package nccl

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/member"
)

const (
	// abortTime is how long communicators may take to be aborted.
	abortTime = 5 * time.Second
	// lossTime is how long an error that may be the loss of another rank is held back: as
	// long as the coordinator waits for the launcher's report on a process.
	lossTime = 2 * time.Second
	// stillTime is how long no call begins before heartbeats carry the last ones.
	stillTime = time.Second
	// pollTime is the time between two looks at asynchronous errors.
	pollTime = 100 * time.Millisecond
)

// Config has the paths of the libraries and the reaction when they hang. The zero value is the
// default.
type Config struct {
	Path string // of libnccl; default libnccl.so.2 in Folders
	Cuda string // of libcuda; default libcuda.so.1, as the system's loader finds it

	// Folders are searched in this order for an NCCL that the driver can run. "" is the
	// system's loader, and the only one by default.
	Folders []string

	// Stuck, if not nil, is called with a *StuckError if communicators were not aborted in
	// time. The program must end then: it cannot free what they hold.
	Stuck func(error)

	abortTime time.Duration // default abortTime; tests wait less
}

// Library is NCCL, opened.
type Library struct {
	cfg     Config
	native  native
	version Version
	path    string

	mu     sync.Mutex
	owners []*owner // with communicators
}

// Open opens the driver and NCCL. The error names the path, and what is missing, too old, or for
// another driver.
func Open(cfg Config) (*Library, error) {
	if !built {
		return nil, ErrNotBuilt
	}
	cfg.abortTime = cmp.Or(cfg.abortTime, abortTime)
	files := libraries.Files{CUDA: cfg.Cuda, NCCL: cfg.Path, Folders: cfg.Folders}
	driver, err := libraries.Driver(files)
	if err != nil {
		return nil, fmt.Errorf("nccl: open: %w", err)
	}
	found, err := libraries.NCCL(files, driver.CUDA)
	if err != nil {
		return nil, fmt.Errorf("nccl: open: %w", err)
	}
	n, version, path, err := openNative(found.Path, driver.Path)
	switch {
	case version != 0 && version < oldest:
		return nil, fmt.Errorf("nccl: open: %s is NCCL %v; install %v or later", path, version, oldest)
	case err != nil:
		return nil, fmt.Errorf("nccl: open: %w; install NCCL %v or later", err, oldest)
	}
	return &Library{cfg: cfg, native: n, version: version, path: path}, nil
}

// Version returns the version of NCCL.
func (l *Library) Version() Version { return l.version }

// Path returns where NCCL was found.
func (l *Library) Path() string { return l.path }

// NewID makes an id, for one communicator. This process must live as long as others
// initialise with it.
func (l *Library) NewID() (ID, error) { return l.native.newID() }

// owner is what holds the communicators that end together: a rank's in one
// generation of its job, or one that Connect made, and what is split off them.
type owner struct {
	lib    *Library
	device Context
	member *member.Member // nil: no job

	mu    sync.Mutex
	comms []*Comm
	made  int
	over  error
	idle  chan struct{} // closed when no communicator is left
}

func (l *Library) newOwner(device Context, m *member.Member) *owner {
	o := &owner{lib: l, device: device, member: m, idle: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = append(l.owners, o)
	return o
}

// add takes a communicator in, unless the group is over.
func (o *owner) add(c *Comm) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		c.stop(o.over)
		go c.abort()
		return o.over
	}
	c.channel = o.made
	o.made++
	o.comms = append(o.comms, c)
	return nil
}

// remove forgets a communicator that is closed.
func (o *owner) remove(c *Comm) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, x := range o.comms {
		if x == c {
			o.comms = append(o.comms[:i:i], o.comms[i+1:]...)
			if len(o.comms) == 0 {
				o.forget()
			}
			return
		}
	}
}

// forget forgets the owner. The caller holds mu, and no communicator is left.
func (o *owner) forget() {
	close(o.idle)
	l := o.lib
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.owners {
		if x == o {
			l.owners = append(l.owners[:i:i], l.owners[i+1:]...)
			return
		}
	}
}

// all returns the communicators.
func (o *owner) all() []*Comm {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*Comm(nil), o.comms...)
}

// Connect makes this process a rank of a communicator that is no part of a job. device is
// the context of the rank's device. It returns when all ranks have called it, or when ctx
// has ended.
func (l *Library) Connect(ctx context.Context, id ID, rank, size int, device Context) (*Comm, error) {
	if size < 1 || rank < 0 || rank >= size {
		panic(fmt.Sprintf("nccl: Connect: rank %d of %d", rank, size))
	}
	return l.connect(ctx, l.newOwner(device, nil), id, rank, size)
}

func (l *Library) connect(ctx context.Context, o *owner, id ID, rank, size int) (*Comm, error) {
	c := &Comm{owner: o, rank: rank, size: size, native: l.native.newComm(o.device)}
	if err := o.add(c); err != nil {
		return nil, err
	}
	err := c.initialise(ctx, id)
	if err == nil {
		return c, nil
	}
	c.stop(err)
	l.abortAll([]*Comm{c})
	return nil, fmt.Errorf("%w (initialisation of NCCL %v, %s)", err, l.version, l.path)
}

func (c *Comm) initialise(ctx context.Context, id ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	return onThread(func() error {
		rc, err := c.waitDone(ctx, c.native, c.native.init(id, c.size, c.rank))
		return c.ended("initialisation", c.native, rc, err)
	})
}

// onThread runs f on an operating system thread of its own. NCCL keeps the state of groups per
// thread: a thread may begin nothing before its last non-blocking call is done, and after a failed
// initialisation its group stays open, so the thread ends then.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := f()
		if err == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// Abort ends all communicators of the library: no call is launched after it, and pending
// ones return cause. Each communicator is aborted from a thread of its own. The error is a
// *StuckError if that takes longer than 5 s.
func (l *Library) Abort(cause error) error {
	l.mu.Lock()
	owners := append([]*owner(nil), l.owners...)
	l.mu.Unlock()
	var comms []*Comm
	for _, o := range owners {
		o.mu.Lock()
		if o.over == nil {
			o.over = cause
		}
		o.mu.Unlock()
		comms = append(comms, o.all()...)
	}
	for _, c := range comms { // all stop before the first is aborted
		c.stop(cause)
	}
	return l.abortAll(comms)
}

// abortAll aborts communicators at once: one may wait for the others.
func (l *Library) abortAll(comms []*Comm) error {
	done := make(chan *Comm, len(comms))
	for _, c := range comms {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c.abort()
			c.owner.remove(c)
			done <- c
		}()
	}
	late := time.NewTimer(l.cfg.abortTime)
	defer late.Stop()
	for left := len(comms); left > 0; left-- {
		select {
		case <-done:
		case <-late.C:
			err := &StuckError{Rank: comms[0].rank, Left: left, Of: len(comms)}
			if l.cfg.Stuck != nil {
				l.cfg.Stuck(err)
			}
			return err
		}
	}
	return nil
}
