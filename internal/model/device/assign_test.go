//go:build gpu

package device

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// identity identifies a whole GPU.
func identity(n byte) cuda.Identity { return cuda.Identity{Device: [16]byte{n}, GPU: [16]byte{n}} }

// dgx returns the candidates of a rank on a machine with 8 devices: 0 to 3 are near CPUs of
// node 0, the others of node 1. The network card is behind the bridge of device 6.
func dgx(on0, on1 int) (c candidates) {
	for i := range 8 {
		d := candidate{identity(byte(i)), inventory.Near{CPUs: on0, Card: 1}}
		if i >= 4 {
			d.CPUs = on1
		}
		if i == 6 {
			d.Card = 3
		}
		c.Devices = append(c.Devices, d)
	}
	return c
}

func TestAssign(t *testing.T) {
	var plain, one, other candidates
	for i := range 2 {
		plain.Devices = append(plain.Devices, candidate{Identity: identity(byte(i))})
	}
	instances := candidates{Devices: []candidate{{Identity: cuda.Identity{Device: [16]byte{1}}}, {Identity: cuda.Identity{Device: [16]byte{2}}}}}
	one.Devices, other.Devices = plain.Devices[:1], plain.Devices[1:]
	far := dgx(0, 0)
	far.Devices = slices.Clone(far.Devices)
	for i := range far.Devices {
		far.Devices[i].Device[1] = 1 // another machine
	}
	for name, x := range map[string]struct {
		all  []candidates
		want []int
	}{
		"nothing is known":        {[]candidates{plain, plain}, []int{0, 1}},
		"shared":                  {[]candidates{plain, plain, plain, plain}, []int{0, 1, 0, 1}},
		"instances of a GPU":      {[]candidates{instances, instances, instances}, []int{0, 1, 0}},
		"each sees its own":       {[]candidates{one, other}, []int{0, 0}},
		"no device":               {[]candidates{{}, plain}, []int{0, 0}},
		"unbound, network card":   {[]candidates{dgx(64, 64), dgx(64, 64)}, []int{6, 0}},
		"bound to nodes by turns": {[]candidates{dgx(8, 0), dgx(0, 8), dgx(8, 0), dgx(0, 8)}, []int{0, 6, 1, 4}},
		"more cores of node 1":    {[]candidates{dgx(1, 3)}, []int{6}},
		"node 0 is full":          {[]candidates{dgx(8, 0), dgx(8, 0), dgx(8, 0), dgx(8, 0), dgx(8, 0)}, []int{0, 1, 2, 3, 6}},
		"two machines":            {[]candidates{dgx(8, 0), far}, []int{0, 6}},
	} {
		if got := assign(x.all); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// TestChoiceByTopology: ranks choose devices by the UUIDs of CUDA and NVML, unless
// CUDA_VISIBLE_DEVICES orders them.
func TestChoiceByTopology(t *testing.T) {
	library, err := cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS})
	fatal.If(t, err)
	own, err := cpus.Here()
	fatal.If(t, err)
	machine := func() (v inventory.Inventory, err error) {
		for i := range 4 {
			id, err := library.Identity(3 - i) // NVML has another order than CUDA
			if err != nil {
				return v, err
			}
			text := hex.EncodeToString(id.GPU[:])
			text = fmt.Sprintf("GPU-%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[16:20], text[20:])
			d := inventory.Device{Index: i, UUID: &text, CPUs: []int{1 << 20}}
			if i == 1 {
				d.CPUs = []int{own[0].ID}
			}
			v.GPUs = append(v.GPUs, d)
		}
		v.GPUs[0].UUID = nil
		return v, nil
	}
	for _, x := range []struct {
		m    Machine
		want []int
		line string
	}{
		{Machine{Inventory: machine}, []int{2, 0, 1}, "GPUs (rank:device): 0:2 1:0 2:1, nearest to their CPUs"},
		{Machine{Inventory: machine, Ordered: true}, []int{0, 1, 2}, "GPUs (rank:device): 0:0 1:1 2:2, in the order of CUDA_VISIBLE_DEVICES"},
		{Machine{Inventory: func() (inventory.Inventory, error) { return inventory.Inventory{}, errors.New("NVML: none") }}, []int{0, 1, 2},
			"GPUs (rank:device): 0:0 1:1 2:2, by number: NVML: none"},
		{Machine{Inventory: func() (inventory.Inventory, error) { return inventory.Inventory{}, nil }}, []int{0, 1, 2},
			"GPUs (rank:device): 0:0 1:1 2:2, by number: NVML does not report which CPUs are near"},
	} {
		got := make([]int, 3)
		if err := mem.Run(3, 2, func(comm *collective.Comm) (err error) {
			m, line := x.m, ""
			m.Member = &member.Member{Comm: comm, World: rank.World{Rank: comm.Rank(), Size: 3, LocalRank: comm.Rank(), LocalSize: 3}}
			if got[comm.Rank()], line, err = m.choose(library); err == nil && line != x.line {
				err = fmt.Errorf("%q, want %q", line, x.line)
			}
			return err
		}); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%v, want %v: %v", got, x.want, err)
		}
	}
	var many []int
	for r := range 40 {
		many = append(many, r%8)
	}
	if got := describe(many, "by number"); len(got) > 200 {
		t.Errorf("a line of %d bytes: %s", len(got), got)
	}
}

// TestOtherUsersOfADeviceAreNamed: an error about its memory lists them.
func TestOtherUsersOfADeviceAreNamed(t *testing.T) {
	t.Setenv("STANDIN_MEMORY", "200000")
	t.Setenv("STANDIN_OTHERS", "100000")
	library, err := cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS})
	fatal.If(t, err)
	id, err := library.Identity(0)
	fatal.If(t, err)
	text, memory := hex.EncodeToString(id.GPU[:]), uint64(1<<30)
	processes := []inventory.Usage{{PID: uint32(os.Getpid())}, {PID: 17, Memory: &memory}, {PID: 18}}
	m := Machine{Inventory: func() (inventory.Inventory, error) {
		return inventory.Inventory{GPUs: []inventory.Device{{UUID: &text, Processes: &processes}}}, nil
	}}
	const used = "of 200000 are free; it is also used by pid 17 (1.0 GiB), pid 18 (unknown)"
	for hidden, want := range map[int]string{9: used + ": give train.batch at most ", 300: used} {
		c, l := parity.Model(func(c *config.Config) { c.Model.Hidden = []int{24, hidden} })
		tr, err := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(16), c, l, step.Tables{})
		fatal.If(t, err)
		err = tr.ComputeOn(false, func(a *dense.Arena) (step.Device, error) {
			d, _, err := m.open(library, 0, a, c, l)
			if err == nil {
				_, err = d.Begin(step.LikelySize(l, 400))
				err = errors.Join(err, d.Close())
			}
			return nil, err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d units: %v, want %s", hidden, err, want)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}
