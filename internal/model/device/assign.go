//go:build gpu

package device

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
)

// candidate is a device that a rank may use.
type candidate struct {
	cuda.Identity
	inventory.Near
}

// candidates is the message of a rank to the others.
type candidates struct {
	Devices []candidate // in CUDA's order
	By      string      // how they are ordered, for the reader
}

const (
	// maxCandidates bounds the devices of a rank, maxMessage the message in bytes.
	maxCandidates = 64
	maxMessage    = 16 << 10
)

// candidates returns the devices of this rank. Without CUDA_VISIBLE_DEVICES they have their
// nearness, as far as it is known.
func (m Machine) candidates(library *cuda.Library) (all candidates, err error) {
	for i := range min(library.Devices, maxCandidates) {
		id, err := library.Identity(i)
		if err != nil {
			return all, err
		}
		all.Devices = append(all.Devices, candidate{id, inventory.Near{}})
	}
	if m.Ordered {
		all.By = "in the order of CUDA_VISIBLE_DEVICES"
		return all, nil
	}
	v, err := m.inventory()
	if err != nil {
		text := err.Error()
		all.By = "by number: " + text[:min(len(text), maxMessage/32)]
		return all, nil
	}
	own, _ := cpus.Here() // if they are unknown, no device is near them
	var ids []int
	for _, c := range own {
		ids = append(ids, c.ID)
	}
	network := ""
	if ip, err := m.Member.World.ListenIP(); err == nil {
		network = inventory.InterfaceOf(ip)
	}
	all.By = all.near(v, ids, network)
	return all, nil
}

// near sets the nearness of the devices that NVML knows and returns what they are near to.
func (c candidates) near(v inventory.Inventory, ids []int, network string) (by string) {
	var sum inventory.Near
	for i := range c.Devices {
		of := slices.IndexFunc(v.GPUs, func(d inventory.Device) bool { return sameUUID(d.UUID, c.Devices[i].GPU) })
		if of < 0 {
			continue
		}
		n := v.GPUs[of].Near(ids, network)
		c.Devices[i].Near = n
		sum.CPUs, sum.Card = sum.CPUs+n.CPUs, sum.Card+n.Card
	}
	var near []string
	if sum.CPUs > 0 {
		near = append(near, "their CPUs")
	}
	if sum.Card > 0 {
		near = append(near, "the network card of "+network)
	}
	if len(near) == 0 {
		return "by number: NVML does not report which CPUs are near"
	}
	return "nearest to " + strings.Join(near, " and ")
}

// sameUUID compares an identifier of NVML, "GPU-" and hexadecimal digits, with one of CUDA.
func sameUUID(text *string, id [16]byte) bool {
	if text == nil {
		return false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(*text, "GPU-"), "-", ""))
	return err == nil && slices.Equal(b, id[:])
}

// assign returns the device of each rank. In the order of their numbers, ranks take the device
// that the fewest ranks have, of these the one that most of their CPUs are near to, then the
// one nearest to their network card, then the first.
func assign(all []candidates) (devices []int) {
	users := map[[16]byte]int{}
	for _, c := range all {
		best := 0
		for i, d := range c.Devices {
			if x := c.Devices[best]; cmp.Or(cmp.Compare(users[d.Device], users[x.Device]), cmp.Compare(x.CPUs, d.CPUs), cmp.Compare(x.Card, d.Card)) < 0 {
				best = i
			}
		}
		if len(c.Devices) > 0 {
			users[c.Devices[best].Device]++
		}
		devices = append(devices, best)
	}
	return devices
}

// choose agrees with the other ranks on the device of each. line describes the choice; it is
// empty if this rank could use one device only.
func (m Machine) choose(library *cuda.Library) (device int, line string, err error) {
	own, err := m.candidates(library)
	if err != nil {
		return 0, "", err
	}
	b, err := json.Marshal(own)
	if err != nil {
		return 0, "", err
	}
	messages, err := collective.AllGatherBytes(m.Member.Comm, b, maxMessage)
	if err != nil {
		return 0, "", err
	}
	all := make([]candidates, len(messages))
	for r, b := range messages {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return 0, "", fmt.Errorf("the devices of rank %d: %w", r, err)
		}
	}
	devices := assign(all)
	rank := m.Member.Comm.Rank()
	if len(own.Devices) > 1 {
		line = describe(devices, own.By)
	}
	return devices[rank], line, nil
}

// maxListed bounds the ranks that a line lists.
const maxListed = 16

// describe returns a line about the devices of the ranks.
func describe(devices []int, by string) string {
	var list []string
	for r, d := range devices[:min(len(devices), maxListed)] {
		list = append(list, fmt.Sprintf("%d:%d", r, d))
	}
	if len(devices) > maxListed {
		list = append(list, "…")
	}
	return fmt.Sprintf("GPUs (rank:device): %s, %s", strings.Join(list, " "), by)
}
