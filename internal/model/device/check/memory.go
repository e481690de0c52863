//go:build gpu

package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
)

// room is memory of a device and as much pinned memory, with a stream.
type room struct {
	stream *cuda.Stream
	pool   *cuda.Pool
	pinned *cuda.Pinned
	device cuda.Buffer
	host   []float32
}

func newRoom(d *cuda.Device, floats int) (m *room, err error) {
	m = new(room)
	if m.stream, err = d.Stream(); err != nil {
		return nil, err
	}
	if m.pool, err = d.Pool(floats); err != nil {
		return nil, err
	}
	if m.pinned, err = d.Pin(floats); err != nil {
		return nil, err
	}
	m.device, m.host = m.pool.Cut(floats), m.pinned.Cut(floats)
	return m, nil
}

func (m *room) close() error { return errors.Join(m.stream.Close(), m.pool.Close(), m.pinned.Close()) }

const (
	// maxFloats are moved by a measurement of bandwidth, or less if the device has little
	// memory.
	maxFloats = 1 << 26
	// times is the number of measurements, of which the median is used.
	times = 5
)

// memory measures bandwidths and compares what has been copied to the device and back.
func memory(d *cuda.Device) (is measured, err error) {
	free, _, err := d.Memory()
	if err != nil {
		return is, err
	}
	m, err := newRoom(d, int(min(maxFloats, free/16)))
	if err != nil {
		return is, err
	}
	set, err := kernel.Load(d)
	if err != nil {
		return is, err
	}
	fill(m.host)
	want, bytes := slices.Clone(m.host), float64(4*len(m.host))
	rate := func(moved float64, f func() error) float64 {
		t, failed := median(func() error { return errors.Join(f(), m.stream.Wait()) })
		err = errors.Join(err, failed)
		return moved / t
	}
	half := len(m.host) / 2
	in := rate(bytes, func() error { return m.stream.CopyIn(m.device, m.host) })
	clear(m.host)
	out := rate(bytes, func() error { return m.stream.CopyOut(m.host, m.device) })
	if err == nil && !slices.Equal(m.host, want) {
		err = errors.New("memory that was copied to the device and back has changed")
	}
	// It reads two floats and writes one.
	on := rate(6*float64(half), func() error {
		return set.Add(m.stream, m.device.Part(0, half), m.device.Part(half, 2*half))
	})
	if err != nil {
		return is, err
	}
	is.text = fmt.Sprintf("%.1f GB/s to the device, %.1f GB/s from it, %.1f GB/s within it", in/1e9, out/1e9, on/1e9)
	is.values = map[string]float64{"bytes": bytes, "to_device_bytes_per_second": in, "from_device_bytes_per_second": out, "device_bytes_per_second": on}
	return is, errors.Join(m.close(), set.Close())
}

// median returns the median time of f in seconds.
func median(f func() error) (float64, error) {
	var all []float64
	for range times {
		began := time.Now()
		if err := f(); err != nil {
			return 1, err
		}
		all = append(all, max(time.Since(began), 1).Seconds())
	}
	slices.Sort(all)
	return all[times/2], nil
}

// fill sets x to the same random numbers each time.
func fill(x []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
}
