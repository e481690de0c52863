//go:build gpu && cgo && linux

package inventory

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// maxDevices and maxProcesses bound what is read of NVML.
	maxDevices   = 256
	maxProcesses = 1024
	// nodeWords is the room for a set of NUMA nodes, in words. maxCPUs bounds a set of CPUs.
	nodeWords = 16
	maxCPUs   = 4096
)

// Here reads the GPUs of this machine.
func Here() (Inventory, error) { return read(nvml.New()) }

func read(lib nvml.Interface) (v Inventory, err error) {
	if rc := lib.Init(); rc != nvml.SUCCESS {
		return v, fmt.Errorf("NVML (libnvidia-ml.so.1): %s; is the NVIDIA driver installed?", reason(rc))
	}
	defer lib.Shutdown()
	v = Inventory{Driver: of(lib.SystemGetDriverVersion()), GPUs: []Device{}}
	if code, rc := lib.SystemGetCudaDriverVersion(); rc == nvml.SUCCESS {
		s := fmt.Sprintf("%d.%d", code/1000, code%1000/10)
		v.CUDA = &s
	}
	n, rc := lib.DeviceGetCount()
	if rc != nvml.SUCCESS {
		return v, fmt.Errorf("NVML: number of GPUs: %s", reason(rc))
	}
	// A function that an old driver lacks would end the process.
	has := func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }
	for i := range min(n, maxDevices) {
		d := Device{Index: i}
		if handle, rc := lib.DeviceGetHandleByIndex(i); rc == nvml.SUCCESS {
			d.read(handle, has)
		} // else all of it is unknown, as of a GPU that has fallen off the bus
		v.GPUs = append(v.GPUs, d)
	}
	return v, nil
}

// reason describes a result of NVML. It does not call nvml.ErrorString, which needs the
// library: the library may be missing.
func reason(rc nvml.Return) string {
	switch rc {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "the library is not installed"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	}
	return fmt.Sprintf("error %d", int(rc))
}

// of returns what NVML reports, nil if it does not.
func of[T any](x T, rc nvml.Return) *T {
	if rc != nvml.SUCCESS {
		return nil
	}
	return &x
}

func (d *Device) read(h nvml.Device, has func(symbol string) bool) {
	d.Model, d.UUID = of(h.GetName()), of(h.GetUUID())
	if major, minor, rc := h.GetCudaComputeCapability(); rc == nvml.SUCCESS {
		s := fmt.Sprintf("%d.%d", major, minor)
		d.Capability = &s
	}
	if m, rc := h.GetMemoryInfo(); rc == nvml.SUCCESS && m.Total > 0 {
		d.Memory = &m.Total
		if m.Free+m.Used > 0 { // else NVML knows the size alone
			d.Free = &m.Free
		}
	}
	if p, rc := h.GetPciInfo(); rc == nvml.SUCCESS {
		d.Bus = bus(p)
	}
	d.PCIGen, d.PCIWidth = of(h.GetMaxPcieLinkGeneration()), of(h.GetCurrPcieLinkWidth())
	d.NVLinks = links(h)
	d.CPUs = near(h)
	if on, _, rc := h.GetEccMode(); rc == nvml.SUCCESS {
		ecc := on == nvml.FEATURE_ENABLED
		d.ECC = &ecc
		d.Uncorrected = of(h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC))
	}
	if on, _, rc := h.GetMigMode(); rc == nvml.SUCCESS {
		mig := on == nvml.DEVICE_MIG_ENABLE
		d.MIG = &mig
	}
	if has("nvmlDeviceGetMemoryAffinity") {
		d.NUMA = node(h)
	}
	d.Throttled = throttling(h, has)
	if all, rc := h.GetComputeRunningProcesses(); rc == nvml.SUCCESS {
		d.Processes = usage(all)
	}
}

// throttling asks for the reasons by the name of CUDA 12.2 and later, or else by the earlier name,
// which CUDA 13 deprecates.
func throttling(h nvml.Device, has func(symbol string) bool) *[]string {
	ask := h.GetCurrentClocksEventReasons
	if !has("nvmlDeviceGetCurrentClocksEventReasons") {
		if ask = h.GetCurrentClocksThrottleReasons; !has("nvmlDeviceGetCurrentClocksThrottleReasons") {
			return nil
		}
	}
	mask, rc := ask()
	if rc != nvml.SUCCESS {
		return nil
	}
	return reasons(mask)
}

// bus returns the address on the PCI bus.
func bus(p nvml.PciInfo) *string {
	var b []byte
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	if len(b) == 0 {
		return nil
	}
	s := string(b)
	return &s
}

// links counts active NVLinks. A GPU without any does not support the question.
func links(h nvml.Device) *int {
	var n, known int
	for i := range nvml.NVLINK_MAX_LINKS {
		state, rc := h.GetNvLinkState(i)
		if rc != nvml.SUCCESS {
			break
		}
		known++
		if state == nvml.FEATURE_ENABLED {
			n++
		}
	}
	if known == 0 {
		return nil
	}
	return &n
}

// node returns the NUMA node, nil if NVML names none or several.
func node(h nvml.Device) *int {
	set, rc := h.GetMemoryAffinity(nodeWords, nvml.AFFINITY_SCOPE_NODE)
	if rc != nvml.SUCCESS {
		return nil
	}
	at, n := 0, 0
	for i, w := range set {
		if n += bits.OnesCount(w); w != 0 {
			at = i*bits.UintSize + bits.TrailingZeros(w)
		}
	}
	if n != 1 {
		return nil
	}
	return &at
}

// near returns the CPUs near a device, nil if NVML names none.
func near(h nvml.Device) (all []int) {
	set, rc := h.GetCpuAffinity(maxCPUs)
	if rc != nvml.SUCCESS {
		return nil
	}
	for i, w := range set[:min(len(set), maxCPUs/bits.UintSize)] {
		for ; w != 0; w &= w - 1 {
			all = append(all, i*bits.UintSize+bits.TrailingZeros(w))
		}
	}
	return all
}

// reasons names why clocks are reduced. An idle GPU, and clocks that a user chose, are no
// reasons.
func reasons(mask uint64) *[]string {
	all := []string{}
	for _, k := range []struct {
		bit  uint64
		name string
	}{
		{nvml.ClocksEventReasonSwPowerCap, "power limit"},
		{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
		{nvml.ClocksEventReasonSwThermalSlowdown, "temperature"},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, "temperature (hardware)"},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
	} {
		if mask&k.bit != 0 {
			all = append(all, k.name)
		}
	}
	return &all
}

func usage(all []nvml.ProcessInfo) *[]Usage {
	list := []Usage{}
	for _, p := range all[:min(len(all), maxProcesses)] {
		u := Usage{PID: p.Pid}
		if p.UsedGpuMemory != math.MaxUint64 { // NVML's "not available"
			u.Memory = &p.UsedGpuMemory
		}
		list = append(list, u)
	}
	return &list
}
