//go:build gpu

package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/nccl"
)

// wait bounds one call of NCCL.
const wait = time.Minute

// group is the devices of this machine as ranks of one communicator.
type group struct {
	library *nccl.Library
	devices []*cuda.Device
	rooms   []*room
	comms   []*nccl.Comm
}

// connect runs the checks over all devices, except abort. It returns whether there are communicators.
func (r *run) connect(g *group, library *cuda.Library) bool {
	err := r.check("collectives", "", func() (measured, error) {
		if library.Devices < 2 {
			return measured{}, skip("collectives need at least 2 devices, and there is 1")
		}
		if err := g.open(library, r.NCCL); err != nil {
			return measured{}, err
		}
		return g.collectives()
	})
	return err == nil && r.check("NCCL bandwidth", "", g.bandwidth) == nil
}

// onAll calls f for each rank concurrently. The first error aborts all communicators, so that
// the other ranks return it too.
func (g *group) onAll(f func(rank int) error) error {
	errs := make([]error, len(g.devices))
	var all sync.WaitGroup
	for r := range g.devices {
		all.Go(func() {
			if errs[r] = f(r); errs[r] != nil {
				errs[r] = errors.Join(errs[r], g.library.Abort(errs[r]))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (g *group) open(library *cuda.Library, cfg nccl.Config) (err error) {
	if g.library, err = nccl.Open(cfg); err != nil {
		return skip(err.Error())
	}
	id, err := g.library.NewID()
	if err != nil {
		return err
	}
	g.devices, g.rooms, g.comms = make([]*cuda.Device, library.Devices), make([]*room, library.Devices), make([]*nccl.Comm, library.Devices)
	for r := range g.devices {
		if g.devices[r], err = library.Device(r); err != nil {
			return err
		}
		free, _, err := g.devices[r].Memory()
		if err != nil {
			return err
		}
		if g.rooms[r], err = newRoom(g.devices[r], int(min(maxFloats, free/16))); err != nil {
			return err
		}
	}
	return g.onAll(func(r int) (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		g.comms[r], err = g.library.Connect(ctx, id, r, len(g.devices), nccl.Context(g.devices[r].Context()))
		return err
	})
}

// count is the number of elements of a call in collectives.
const count = 1000

// element is element i of the input of a rank. Sums of them are exact.
func element(rank, i int) float32 { return float32((rank+1)*100 + i%10) }

// collectives compares the result of each operation with its definition.
func (g *group) collectives() (is measured, err error) {
	p := len(g.devices)
	sum := func(i int) (s float32) {
		for r := range p {
			s += element(r, i)
		}
		return s
	}
	whole := func(kind nccl.Kind) func(int) []nccl.Call {
		return func(int) []nccl.Call { return []nccl.Call{{Kind: kind, Count: count}} }
	}
	for _, x := range []struct {
		name  string
		calls func(rank int) []nccl.Call
		n     int // elements of the result
		want  func(rank, i int) float32
	}{
		{"allreduce", whole(nccl.AllReduce), count, func(_, i int) float32 { return sum(i) }},
		{"reduce-scatter", whole(nccl.ReduceScatter), count, func(r, i int) float32 { return sum(r*count + i) }},
		{"all-gather", whole(nccl.AllGather), p * count, func(_, i int) float32 { return element(i/count, i%count) }},
		{"broadcast", func(int) []nccl.Call { return []nccl.Call{{Kind: nccl.Broadcast, Peer: 1, Count: count}} }, count, func(_, i int) float32 { return element(1, i) }},
		{"send and receive", func(r int) []nccl.Call {
			return []nccl.Call{{Kind: nccl.Send, Peer: (r + 1) % p, Count: count}, {Kind: nccl.Recv, Peer: (r + p - 1) % p, Count: count}}
		}, count, func(r, i int) float32 { return element((r+p-1)%p, i) }},
	} {
		err := g.onAll(func(r int) error {
			m := g.rooms[r]
			send, recv := m.device.Part(0, p*count), m.device.Part(p*count, 2*p*count)
			for i := range p * count {
				m.host[i] = element(r, i)
			}
			if err := m.stream.CopyIn(send, m.host[:p*count]); err != nil {
				return err
			}
			if err := g.call(r, send, recv, x.calls(r)); err != nil {
				return err
			}
			got := m.host[p*count:][:x.n]
			if err := errors.Join(m.stream.CopyOut(got, recv.Part(0, x.n)), m.stream.Wait()); err != nil {
				return err
			}
			for i, v := range got {
				if want := x.want(r, i); v != want {
					return fmt.Errorf("%s: rank %d: element %d is %v, want %v", x.name, r, i, v, want)
				}
			}
			return nil
		})
		if err != nil {
			return is, err
		}
	}
	is.text = fmt.Sprintf("5 operations over NCCL %v (%s) on %d devices", g.library.Version(), g.library.Path(), p)
	return is, nil
}

// call completes calls of a rank.
func (g *group) call(r int, send, recv cuda.Buffer, calls []nccl.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for i := range calls {
		calls[i].Type, calls[i].Op, calls[i].Send, calls[i].Recv = nccl.Float32, nccl.Sum, nccl.Pointer(send.At), nccl.Pointer(recv.At)
	}
	s := nccl.Stream(g.rooms[r].stream.Handle())
	return errors.Join(g.comms[r].Launch(s, calls...), g.comms[r].Wait(ctx, s))
}

// bandwidth measures the bus bandwidth of allreduce, as nccl-tests defines it.
func (g *group) bandwidth() (is measured, err error) {
	p, n := len(g.devices), g.rooms[0].device.Len
	for _, m := range g.rooms {
		n = min(n, m.device.Len)
	}
	t, err := median(func() error {
		return g.onAll(func(r int) error {
			b := g.rooms[r].device.Part(0, n)
			return g.call(r, b, b, []nccl.Call{{Kind: nccl.AllReduce, Count: n}})
		})
	})
	if err != nil {
		return is, err
	}
	bus := float64(4*n) * 2 * float64(p-1) / float64(p) / t
	is.text = fmt.Sprintf("allreduce of %d bytes: %.1f GB/s bus bandwidth", 4*n, bus/1e9)
	is.values = map[string]float64{"bytes": float64(4 * n), "bus_bytes_per_second": bus}
	return is, nil
}

// abort aborts a sum that only rank 0 has begun.
func (g *group) abort() (is measured, err error) {
	cause := errors.New("aborted by the check")
	m := g.rooms[0]
	s, at := nccl.Stream(m.stream.Handle()), nccl.Pointer(m.device.At)
	call := nccl.Call{Kind: nccl.AllReduce, Type: nccl.Float32, Count: count, Send: at, Recv: at}
	if err := g.comms[0].Launch(s, call); err != nil {
		return is, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.comms[0].Wait(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
		return is, fmt.Errorf("a sum that one rank has begun ended: %v", err)
	}
	began := time.Now()
	if err := g.library.Abort(cause); err != nil {
		return is, err
	}
	took := time.Since(began)
	if err := g.comms[0].Wait(context.Background(), s); !errors.Is(err, cause) {
		return is, fmt.Errorf("after the abort: %v", err)
	}
	for r, m := range g.rooms {
		if err := errors.Join(m.close(), g.devices[r].Close()); err != nil {
			return is, fmt.Errorf("after the abort: %w", err)
		}
	}
	is.text = fmt.Sprintf("%d communicators were aborted in %v", len(g.comms), took.Round(time.Microsecond))
	is.values = map[string]float64{"abort_seconds": took.Seconds()}
	return is, nil
}
