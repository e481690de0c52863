//go:build gpu

package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// machine is a DGX A100. Its first GPU reports all there is, the second one nothing that the
// mock itself does not, and the third has fallen off the bus.
func machine() *dgxa100.Server {
	s := dgxa100.New()
	for i, x := range s.Devices {
		d, known := x.(*dgxa100.Device), nvml.ERROR_NOT_SUPPORTED
		if i == 0 {
			known = nvml.SUCCESS
			d.MemoryInfo.Free, d.MemoryInfo.Used = 30<<30, d.MemoryInfo.Total-30<<30
			info := nvml.PciInfo{}
			for k, c := range "00000000:07:00.0" {
				info.BusId[k] = int8(c)
			}
			d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return info, nvml.SUCCESS }
		}
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.EnableState(min(link, 1)), known
		}
		d.GetMaxPcieLinkGenerationFunc = func() (int, nvml.Return) { return 4, known }
		d.GetCurrPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, known }
		d.GetCpuAffinityFunc = func(n int) ([]uint, nvml.Return) {
			set := make([]uint, n/8)
			set[0], set[1], set[len(set)-1] = 1<<0|1<<63, 1<<1, 1 // the last one is beyond the limit
			return set, known
		}
		d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, known
		}
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 2, known }
		d.GetMemoryAffinityFunc = func(n int, _ nvml.AffinityScope) ([]uint, nvml.Return) {
			set := make([]uint, n)
			set[0] = 1 << 3
			return set, known
		}
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonGpuIdle | nvml.ClocksEventReasonSwPowerCap, known
		}
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonHwSlowdown, known
		}
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 17, UsedGpuMemory: 1 << 30}, {Pid: 18, UsedGpuMemory: math.MaxUint64}}, known
		}
	}
	found := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return found(i)
	}
	return s
}

func TestInventoryOfADGX(t *testing.T) {
	v, err := read(machine())
	if err != nil || len(v.GPUs) != 8 {
		t.Fatalf("%d GPUs, %v", len(v.GPUs), err)
	}
	var out bytes.Buffer
	fatal.If(t, Write(&out, v))
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"driver 550.54.15, CUDA 12.4",
		"GPU  MODEL  MEMORY  FREE  PCI  NUMA  NVLINKS  ECC  THROTTLED  PROCESSES",
		"0  Mock NVIDIA A100-SXM4-40GB  40.0 GiB  30.0 GiB  00000000:07:00.0 (gen 4 x16)  3  11  on, 2 errors  power limit  pid 17 (1.0 GiB), pid 18 (unknown)",
		"1  Mock NVIDIA A100-SXM4-40GB  40.0 GiB  unknown  unknown  unknown  unknown  unknown  unknown  unknown",
		"2  unknown  unknown  unknown  unknown  unknown  unknown  unknown  unknown  unknown",
	} {
		if got := strings.Join(cells(lines[i]), "  "); got != want {
			t.Errorf("line %d:\n%s\nwant\n%s", i, got, want)
		}
	}
	if got := v.GPUs[0].CPUs; !slices.Equal(got, []int{0, 63, 65}) {
		t.Errorf("CPUs %v are near", got)
	}
	b, err := json.Marshal(v)
	fatal.If(t, err)
	var all struct {
		GPUs []map[string]any
	}
	fatal.If(t, json.Unmarshal(b, &all))
	for key, x := range all.GPUs[0] {
		if x == nil {
			t.Errorf("GPU 0 reports %s, which is null", key)
		}
	}
	for key, x := range all.GPUs[2] {
		if key != "index" && x != nil {
			t.Errorf("%s of GPU 2 is %v, and NVML reports nothing", key, x)
		}
	}
}

// cells are the parts of a line between two spaces or more.
func cells(line string) (all []string) {
	for _, c := range strings.Split(line, "  ") {
		if c = strings.TrimSpace(c); c != "" {
			all = append(all, c)
		}
	}
	return all
}

// TestDriversWithoutFunctions: a function that a driver lacks is not called, which would end the
// process. Reasons for reduced clocks have two names.
func TestDriversWithoutFunctions(t *testing.T) {
	const event, throttle = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
	for _, x := range []struct {
		has  []string
		want *[]string
	}{
		{[]string{event, throttle}, &[]string{"power limit"}},
		{[]string{event}, &[]string{"power limit"}},
		{[]string{throttle}, &[]string{"hardware slowdown"}},
		{nil, nil},
	} {
		s := machine()
		s.LookupSymbolFunc = func(symbol string) error {
			if slices.Contains(x.has, symbol) {
				return nil
			}
			return errors.New(symbol)
		}
		v, err := read(s)
		if err != nil || v.GPUs[0].NUMA != nil || v.GPUs[0].NVLinks == nil || (v.GPUs[0].Throttled == nil) != (x.want == nil) ||
			x.want != nil && !slices.Equal(*v.GPUs[0].Throttled, *x.want) {
			t.Errorf("%q: %+v, %v", x.has, v.GPUs[0], err)
		}
	}
}

func TestNoDriver(t *testing.T) {
	s := machine()
	s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if _, err := read(s); err == nil || !strings.Contains(err.Error(), "NVML (libnvidia-ml.so.1): the library is not installed; is the NVIDIA driver installed?") {
		t.Errorf("%v", err)
	}
}
