//go:build gpu

package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/nccl"
)

// The methods of summing gradients.
const (
	overNCCL = "nccl"
	overHost = "host"
)

// Machine opens the devices of a machine: each rank uses one of them.
type Machine struct {
	Member    *member.Member // member of this rank; nil in a launcher, which only checks
	Assigned  bool           // another launcher started the ranks and may have assigned devices to each
	Ordered   bool           // CUDA_VISIBLE_DEVICES selects and orders the devices
	Share     bool           // several ranks may use one device
	Sum       string         // nccl, host, or "": nccl if all ranks can use it
	Files     cuda.Files
	NCCL      nccl.Config
	Getenv    func(string) string                 // nil: settings are not examined
	Inventory func() (inventory.Inventory, error) // nil: inventory.Here
}

// Check implements wdl.Devices.
func (m Machine) Check(c *config.Config, ranks int) error {
	library, err := cuda.Open(m.Files)
	if err != nil {
		return fmt.Errorf("train.device: gpu: %w", err)
	}
	if !m.Assigned && !m.Share && library.Devices < ranks {
		return fmt.Errorf("train.device: gpu: each rank needs its own device, and this machine has %d for %s: start at most %s on it, or give -share-gpu", library.Devices, plural.Of(ranks, "rank"), plural.Of(library.Devices, "rank"))
	}
	if m.Sum != overNCCL {
		return nil
	}
	if m.Share {
		return errors.New("-collective nccl cannot be combined with -share-gpu: NCCL needs a device for each rank")
	}
	if why := needsHost(c); why != "" {
		return fmt.Errorf("-collective nccl cannot be combined with %s: leave it out, or give -collective host", why)
	}
	if _, err := nccl.Open(m.NCCL); err != nil {
		return fmt.Errorf("-collective nccl: %w", err)
	}
	return nil
}

// Need implements wdl.Devices.
func (m Machine) Need(c *config.Config, l layout.Layout, rows int) (*plan.Device, error) {
	a, err := step.DenseArena(c, l)
	if err != nil {
		return nil, err
	}
	files := m.Files
	files.NCCL = m.NCCL.Path
	p := &plan.Device{FreeBytes: math.MaxInt64, Libraries: libraries.Find(files)}
	if p.MemoryBytes, err = need(a, c, l, rows); err != nil {
		return nil, err
	}
	library, err := cuda.Open(m.Files)
	if err != nil {
		return nil, err
	}
	for i := range library.Devices {
		on, err := library.Device(i)
		if err != nil {
			return nil, err
		}
		free, _, err := on.Memory()
		if err = errors.Join(err, on.Close()); err != nil {
			return nil, err
		}
		p.FreeBytes = min(p.FreeBytes, free)
	}
	return p, nil
}

// needsHost returns the setting that requires sums in host memory, with the reason; "" if none does.
func needsHost(c *config.Config) string {
	switch {
	case c.Train.Slots > 0:
		return "train.slots: the host sums gradients in the order of the slots"
	case c.Train.Mode == "drop" || c.Train.Mode == "speculate":
		return "train.mode " + c.Train.Mode + ": a sum of NCCL waits for all ranks, also for those that are late"
	}
	return ""
}

// Try implements wdl.Devices. The ranks do not communicate, so local rank N measures device N,
// modulo their number.
func (m Machine) Try(a *dense.Arena, c *config.Config, l layout.Layout) (step.Device, error) {
	m.Assigned = !m.Member.World.Launched
	if err := m.Check(c, m.Member.World.LocalSize); err != nil {
		return nil, err
	}
	library, err := cuda.Open(m.Files)
	if err != nil {
		return nil, err
	}
	d, _, err := m.open(library, m.Member.World.LocalRank%max(library.Devices, 1), a, c, l)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Open implements wdl.Devices.
func (m Machine) Open(a *dense.Arena, c *config.Config, l layout.Layout) (_ step.Device, lines []string, err error) {
	library, err := cuda.Open(m.Files)
	if err != nil {
		return nil, nil, err
	}
	device, chosen, err := m.choose(library)
	if err != nil {
		return nil, nil, fmt.Errorf("train.device: gpu: %w", err)
	}
	d, on, err := m.open(library, device, a, c, l)
	if err != nil {
		return nil, nil, err
	}
	summed, err := m.join(library, d, on, needsHost(c))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("train.device: gpu: %w", err), d.Close())
	}
	for _, line := range []string{chosen, summed} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	if m.Getenv != nil {
		lines = append(lines, libraries.Settings(m.Getenv, c.Train.Precision, d.Sums() && m.neighbours())...)
	}
	return d, lines, nil
}

// neighbours reports whether other ranks run on this machine.
func (m Machine) neighbours() bool { return m.Member.World.LocalSize > 1 }

// open opens a device for an arena.
func (m Machine) open(library *cuda.Library, device int, a *dense.Arena, c *config.Config, l layout.Layout) (d *Device, on *cuda.Device, err error) {
	if on, err = library.Device(device); err != nil {
		return nil, nil, err
	}
	users := func() string { return m.users(library, device) }
	if d, err = Open(on, a, c, l); err != nil {
		if _, short := cuda.IsMemory(err); short {
			err = fmt.Errorf("%w%s", err, users())
		}
		return nil, nil, fmt.Errorf("train.device: gpu: %w", err)
	}
	d.users = users
	return d, on, nil
}

// users lists the other processes on a device, after an error; "" if they are unknown.
func (m Machine) users(library *cuda.Library, device int) string {
	id, failed := library.Identity(device)
	v, err := m.inventory()
	if failed != nil || err != nil {
		return ""
	}
	for _, d := range v.GPUs {
		if others := d.Others(os.Getpid()); others != "" && sameUUID(d.UUID, id.GPU) {
			return "; it is also used by " + others
		}
	}
	return ""
}

// inventory lists the GPUs of this machine.
func (m Machine) inventory() (inventory.Inventory, error) {
	if m.Inventory != nil {
		return m.Inventory()
	}
	return inventory.Here()
}

// choice is the message of a rank to the others about its device.
type choice struct {
	ID     cuda.Identity
	Device string
	Share  bool
	Sum    string
	Fault  string // why the rank cannot use NCCL
}

// maxChoice is the largest size of a choice, in bytes.
const maxChoice = 4 << 10

// join agrees with the other ranks on how to sum gradients, and prepares the device for it.
// needsHost is the result of the function of that name.
func (m Machine) join(library *cuda.Library, d *Device, on *cuda.Device, needsHost string) (line string, err error) {
	own := choice{Device: on.String(), Share: m.Share, Sum: m.Sum, Fault: "-collective host"}
	if own.ID, err = library.Identity(on.Ordinal); err != nil {
		return "", err
	}
	var collectives *nccl.Library
	switch {
	case m.Sum == overHost:
	case needsHost != "":
		own.Fault = needsHost
	default:
		own.Fault = ""
		if collectives, err = nccl.Open(m.NCCL); err != nil {
			text := err.Error()
			own.Fault = text[:min(len(text), maxChoice/8)] // JSON may need 6 bytes for one
		}
	}
	b, err := json.Marshal(own)
	if err != nil {
		return "", err
	}
	messages, err := collective.AllGatherBytes(m.Member.Comm, b, maxChoice)
	if err != nil {
		return "", err
	}
	all := make([]choice, len(messages))
	for r, b := range messages {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return "", fmt.Errorf("the choice of rank %d: %w", r, err)
		}
	}
	fault, err := decide(all)
	switch {
	case err != nil:
		return "", err
	case len(all) == 1 && m.Sum == "":
		return "", nil // there is nothing to sum
	case fault != "":
		return "gradients are summed in the memory of the hosts: " + fault, nil
	}
	comm, err := collectives.Join(context.Background(), m.Member, nccl.Context(on.Context()))
	if err != nil {
		if cause := libraries.Shared(m.neighbours()); cause != "" {
			err = fmt.Errorf("%w; %s", err, cause)
		}
		return "", err
	}
	return fmt.Sprintf("gradients are summed between GPUs by NCCL %v (%s)", collectives.Version(), collectives.Path()), d.SumOver(comm)
}

// decide returns the reason why the ranks with these choices sum gradients in host memory, or
// "" if they use NCCL. All ranks return the same. The flags of rank 0 apply.
func decide(all []choice) (fault string, err error) {
	if a, b, found := twice(all, func(x choice) [16]byte { return x.ID.Device }); found {
		fault = fmt.Sprintf("ranks %d and %d have the same %s", a, b, all[b].Device)
	}
	if fault != "" && !all[0].Share {
		return "", fmt.Errorf("%s: start fewer ranks on its machine, or give -share-gpu", fault)
	}
	if a, b, found := twice(all, func(x choice) [16]byte { return x.ID.GPU }); found && fault == "" {
		fault = fmt.Sprintf("ranks %d and %d have instances of one GPU (MIG), which NCCL does not connect", a, b)
	}
	for r, x := range all {
		if fault == "" && x.Fault != "" {
			fault = fmt.Sprintf("rank %d: %s", r, x.Fault)
		}
	}
	switch all[0].Sum {
	case overHost:
		fault = "-collective host"
	case overNCCL:
		if fault != "" {
			return "", fmt.Errorf("-collective nccl: %s", fault)
		}
	}
	return fault, nil
}

// twice returns the first two ranks with the same identifier.
func twice(all []choice, of func(choice) [16]byte) (a, b int, found bool) {
	first := map[[16]byte]int{}
	for r, x := range all {
		if a, found = first[of(x)]; found {
			return a, r, true
		}
		first[of(x)] = r
	}
	return 0, 0, false
}
