// Package inventory lists the GPUs of a machine, as NVML reports them. Only builds with the
// tag gpu can read them. What NVML does not report is nil, and printed as "unknown".
package inventory

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// ErrNotBuilt is the error of Here in a program that was built without the tag gpu.
var ErrNotBuilt = errors.New("this program was built without GPU support")

// Inventory is what a machine has.
type Inventory struct {
	Driver *string  `json:"driver"`
	CUDA   *string  `json:"cuda"` // the latest version that the driver supports
	GPUs   []Device `json:"gpus"`
}

// Device is one GPU. A nil field is unknown.
type Device struct {
	Index       int       `json:"index"` // NVML's, in the order of the bus
	Model       *string   `json:"model"`
	UUID        *string   `json:"uuid"`
	Capability  *string   `json:"compute_capability"`
	Memory      *uint64   `json:"memory_bytes"`
	Free        *uint64   `json:"memory_free_bytes"`
	Bus         *string   `json:"pci_bus"`
	PCIGen      *int      `json:"pci_generation"` // the latest that device and slot support
	PCIWidth    *int      `json:"pci_width"`      // lanes in use
	NUMA        *int      `json:"numa_node"`
	CPUs        []int     `json:"cpus"`    // that are near; nil: unknown
	NVLinks     *int      `json:"nvlinks"` // that are active
	ECC         *bool     `json:"ecc"`
	Uncorrected *uint64   `json:"ecc_uncorrected"` // errors since the driver was loaded
	MIG         *bool     `json:"mig"`
	Throttled   *[]string `json:"throttled"` // why clocks are reduced; empty: they are not
	Processes   *[]Usage  `json:"processes"` // that compute on it
}

// Usage is a process on a device.
type Usage struct {
	PID    uint32  `json:"pid"`
	Memory *uint64 `json:"memory_bytes"`
}

// String summarises the inventory: the number of GPUs of each model, and the driver.
func (v Inventory) String() string {
	var models []string
	n := map[string]int{}
	for _, d := range v.GPUs {
		model := fmt.Sprintf("%s (%s)", text("%s", d.Model), size(d.Memory))
		if n[model] == 0 {
			models = append(models, model)
		}
		n[model]++
	}
	for i, model := range models {
		models[i] = fmt.Sprintf("%d × %s", n[model], model)
	}
	if len(models) == 0 {
		models = []string{"none"}
	}
	return fmt.Sprintf("%s, driver %s, CUDA %s", strings.Join(models, ", "), text("%s", v.Driver), text("%s", v.CUDA))
}

// Write prints the inventory for a reader.
func Write(w io.Writer, v Inventory) error {
	fmt.Fprintf(w, "driver %s, CUDA %s\n", text("%s", v.Driver), text("%s", v.CUDA))
	if len(v.GPUs) == 0 {
		_, err := fmt.Fprintln(w, "no GPU")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\tMODEL\tMEMORY\tFREE\tPCI\tNUMA\tNVLINKS\tECC\tTHROTTLED\tPROCESSES")
	for _, d := range v.GPUs {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Index, text("%s", d.Model), size(d.Memory), size(d.Free),
			pci(d), text("%d", d.NUMA), text("%d", d.NVLinks), ecc(d), throttled(d.Throttled), processes(d.Processes))
	}
	return t.Flush()
}

const unknown = "unknown"

// text formats a value; nil becomes unknown.
func text[T any](format string, x *T) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf(format, *x)
}

func size(x *uint64) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(*x)/(1<<30))
}

func pci(d Device) string {
	if d.Bus == nil || d.PCIGen == nil || d.PCIWidth == nil {
		return text("%s", d.Bus)
	}
	return fmt.Sprintf("%s (gen %d x%d)", *d.Bus, *d.PCIGen, *d.PCIWidth)
}

func ecc(d Device) string {
	switch {
	case d.ECC == nil:
		return unknown
	case !*d.ECC:
		return "off"
	case d.Uncorrected == nil:
		return "on"
	}
	return fmt.Sprintf("on, %d errors", *d.Uncorrected)
}

// maxOthers bounds the processes that Others lists.
const maxOthers = 8

// Others lists the processes that compute on the device, without one of them. It returns "" if
// there are none or they are unknown.
func (d Device) Others(pid int) string {
	if d.Processes == nil {
		return ""
	}
	all := slices.DeleteFunc(slices.Clone(*d.Processes), func(u Usage) bool { return int(u.PID) == pid })
	if len(all) == 0 {
		return ""
	}
	text := processes(new(all[:min(len(all), maxOthers)]))
	if n := len(all) - maxOthers; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func throttled(x *[]string) string {
	switch {
	case x == nil:
		return unknown
	case len(*x) == 0:
		return "no"
	}
	return strings.Join(*x, ", ")
}

func processes(x *[]Usage) string {
	switch {
	case x == nil:
		return unknown
	case len(*x) == 0:
		return "none"
	}
	var all []string
	for _, u := range *x {
		all = append(all, fmt.Sprintf("pid %d (%s)", u.PID, size(u.Memory)))
	}
	return strings.Join(all, ", ")
}
