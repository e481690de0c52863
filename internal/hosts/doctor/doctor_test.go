package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestPartner: each rank meets every other one once, and partners agree.
func TestPartner(t *testing.T) {
	for size := 2; size <= 33; size++ {
		met := map[[2]int]int{}
		for round := range size - 1 + size%2 {
			for r := range size {
				other := partner(r, size, round)
				if other < 0 {
					continue
				}
				if other == r || other >= size || partner(other, size, round) != r {
					t.Fatalf("size %d, round %d: rank %d has partner %d", size, round, r, other)
				}
				met[[2]int{r, other}]++
			}
		}
		if len(met) != size*(size-1) {
			t.Errorf("size %d: %d of %d meetings", size, len(met), size*(size-1))
		}
		for who, n := range met {
			if n != 1 {
				t.Errorf("size %d: %v meet %d times", size, who, n)
			}
		}
	}
}

// hosts returns equal hosts a, b, c …
func hosts(n int) (all []Host) {
	for i := range n {
		all = append(all, Host{Name: string(rune('a' + i)), Ranks: 1, Kernels: "AVX512", CPUs: 8, GFLOPS: 100, Memory: 64 << 30, Available: 32 << 30, OpenFiles: 1024})
	}
	return all
}

// examine runs Examine on a modelled network, in virtual time.
func examine(t *testing.T, own []Host, m simnet.Model) (r Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for rank, link := range simnet.New(len(own), 1, m) {
			go func() {
				got, err := Examine(collective.New(link), own[rank], func() {})
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
				if rank == 0 {
					r = got
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Hour)
	})
	return r
}

// TestSlowHost: the values of the model are measured, and the one slow host of five is
// reported, not its pairs.
func TestSlowHost(t *testing.T) {
	const latency, rate = 50 * time.Microsecond, 1.25e9
	r := examine(t, hosts(5), simnet.Model{Latency: latency, BytesPerSecond: rate, Slow: map[int]float64{3: 4}})
	if len(r.Hosts) != 5 || len(r.Pairs) != 10 {
		t.Fatalf("%d hosts and %d pairs", len(r.Hosts), len(r.Pairs))
	}
	for _, p := range r.Pairs {
		want := rate
		if slices.Contains(p.Hosts[:], "d") {
			want /= 4
		}
		if trip := p.RoundTrip / latency.Seconds(); trip < 2 || trip > 4.1 || math.Abs(p.rate()/want-1) > .05 {
			t.Errorf("%v: a round trip of %.2f latencies, %.3g bytes a second, want %.3g", p.Hosts, trip, p.rate(), want)
		}
	}
	for _, h := range r.Hosts {
		if h.ClockSeconds != 0 && math.Abs(h.ClockSeconds) > 1e-3 {
			t.Errorf("host %s: its clock is %g s ahead", h.Name, h.ClockSeconds)
		}
	}
	found := Judge(&r, Job{})
	if want := "host d: its fastest link carries 313 MB/s, 4.0 times less than the median of 1.25 GB/s: check its network card"; len(found) != 1 || found[0].Level != Warning || !strings.HasPrefix(found[0].Text, want) {
		t.Errorf("%+v", found)
	}
}

// TestJudge changes one property of good hosts.
func TestJudge(t *testing.T) {
	disk := func(d Disk) func(*Report, *Job) { return func(r *Report, _ *Job) { r.Hosts[1].Disks = []Disk{d} } }
	for _, x := range []struct {
		name   string
		change func(*Report, *Job)
		want   string // "" for no finding
	}{
		{"good hosts", func(*Report, *Job) {}, ""},
		{"enough memory", func(_ *Report, j *Job) { j.Memory = 32 << 30 }, ""},
		{"too little memory", func(_ *Report, j *Job) { j.Memory, j.Ranks = 20<<30, []int{1, 2, 1, 1} }, "error: host b: 40 GiB of memory are needed for 2 ranks of 20 GiB, and 32 GiB are available: place fewer ranks there, or lower -mem"},
		{"little memory", func(r *Report, _ *Job) { r.Hosts[1].Available = 100 << 20 }, "warning: host b: 100 MiB of memory are available to 1 rank: end other programs"},
		{"few files", func(r *Report, j *Job) { r.Hosts[1].OpenFiles, j.Streams = 64+2*4*3-1, 4 }, "error: host b: a process may open 87 files, and a rank of this job needs 88: raise the limit (ulimit -n) there"},
		{"few ports", func(r *Report, j *Job) {
			j.Ports, j.Ranks = true, []int{1, 3, 1, 1}
			for i := range r.Hosts {
				r.Hosts[i].FreePorts = 2
			}
		}, "error: host b: 2 ports of -ports are free, and 3 ranks need one each: give a larger range"},
		{"read-only directory", disk(Disk{"work", "/x", 1 << 40, "read-only"}), "error: host b: the ranks cannot write to /x: read-only: make it writable, or name another directory with -wdir"},
		{"read-only cache", disk(Disk{"cache", "/x", 1 << 40, "read-only"}), "warning: host b: /x cannot be written: read-only"},
		{"full disk", disk(Disk{"tmp", "/tmp", 5 << 20, ""}), "warning: host b: 5 MiB are free in /tmp: remove files there"},
		{"more ranks than CPUs", func(_ *Report, j *Job) { j.Ranks = []int{8, 9, 1, 1} }, "warning: host b: 9 ranks share 8 CPUs: one rank per core is fastest"},
		{"busy", func(r *Report, _ *Job) { r.Hosts[1].Load = 3 }, "warning: host b: other programs keep its 8 CPUs busy (load 3.0)"},
		{"other kernels", func(r *Report, _ *Job) { r.Hosts[0].Kernels = "AVX2" }, "warning: host a: it computes with AVX2, the other hosts with AVX512"},
		{"throttled", func(r *Report, _ *Job) { r.Hosts[1].GFLOPS = 40 }, "warning: host b: a thread computes 40 GFLOP/s, 2.5 times less than the median of 100: it is busy or throttled"},
		{"fast clock", func(r *Report, _ *Job) { r.Hosts[1].ClockSeconds = 3 }, "warning: host b: its clock is 3.0 s ahead of the median host: start a time service there"},
		{"slow clock", func(r *Report, _ *Job) { r.Hosts[1].ClockSeconds = -3 }, "warning: host b: its clock is 3.0 s behind the median host"},
		{"slow host", func(r *Report, _ *Job) { slowHost(r, "b", 5, 1) }, "warning: host b: its fastest link carries 200 MB/s, 5.0 times less than the median of 1 GB/s"},
		{"far host", func(r *Report, _ *Job) { slowHost(r, "b", 1, 20) }, "warning: host b: its shortest round trip takes 1 ms, 20 times the median of 50 µs"},
		{"slow pair", func(r *Report, _ *Job) { r.Pairs[1].Rates[1] /= 10 }, "warning: hosts a and c: their link carries 100 MB/s, 10.0 times less than other links of both; the median is 1 GB/s: check the route between them"},
		{"far pair", func(r *Report, _ *Job) { r.Pairs[1].RoundTrip *= 10 }, "warning: hosts a and c: a round trip takes 500 µs, 10 times as long as on other links of both; the median is 50 µs"},
		{"nothing is known", func(r *Report, j *Job) { *r, j.Memory = Report{Hosts: []Host{{Name: "b"}}}, 1<<30 }, ""},
	} {
		r, job := Report{Hosts: hosts(4)}, Job{}
		for a := range r.Hosts {
			for b := a + 1; b < len(r.Hosts); b++ {
				r.Pairs = append(r.Pairs, Pair{[2]string{r.Hosts[a].Name, r.Hosts[b].Name}, 50e-6, [2]float64{1e9, 1e9}})
			}
		}
		x.change(&r, &job)
		found, got := Judge(&r, job), ""
		for _, f := range found {
			got += fmt.Sprintf("%s: %s\n", f.Level, f.Text)
		}
		if !strings.HasPrefix(got, x.want) || strings.Count(got, "\n") != min(len(x.want), 1) || Fails(found) != strings.HasPrefix(x.want, Error) {
			t.Errorf("%s: %s\nwant %s", x.name, got, x.want)
		}
	}
}

// slowHost makes all links of a host slower and longer.
func slowHost(r *Report, name string, rate, trip float64) {
	for i := range r.Pairs {
		if p := &r.Pairs[i]; slices.Contains(p.Hosts[:], name) {
			p.Rates[0], p.Rates[1], p.RoundTrip = p.Rates[0]/rate, p.Rates[1]/rate, p.RoundTrip*trip
		}
	}
}

// TestHere: the description of this host is complete.
func TestHere(t *testing.T) {
	h := Here("me", "1", t.TempDir(), t.TempDir()+"/not/there", ports.Range{}, libraries.Files{})
	if h.Name != "me" || h.CPUs < 1 || h.Kernels == "" || len(h.Disks) != 3 || h.Disks[0].Fault != "" || h.Disks[2].Fault != "" || strings.Contains(h.Disks[2].Path, "not") {
		t.Errorf("%+v", h)
	}
	if d := disk("work", "/proc"); d.Fault == "" {
		t.Errorf("%+v can be written", d)
	}
}

// TestWrite checks the text output.
func TestWrite(t *testing.T) {
	model, memory, driver := "A100", uint64(40<<30), "550.54"
	gpus := inventory.Inventory{Driver: &driver, GPUs: []inventory.Device{{Model: &model, Memory: &memory}, {}, {Model: &model, Memory: &memory}}}
	r := Report{Hosts: hosts(2), Pairs: []Pair{{[2]string{"a", "b"}, 50e-6, [2]float64{2e9, 1e9}}}}
	r.Hosts[0].GPUs, r.Hosts[1].GPUFault = &gpus, "no driver"
	r.Hosts[0].Libraries = []libraries.Library{{Name: "NCCL", Version: "2.19.3", Path: "/lib/libnccl.so.2"}}
	for _, x := range []struct {
		found []Finding
		want  string
	}{
		{nil, "a job can run on these hosts\n"},
		{[]Finding{{Error, "host b: x"}}, "error: host b: x\n"},
	} {
		var b strings.Builder
		fatal.If(t, Write(&b, r, x.found))
		want := "GPUs of a: 2 × A100 (40.0 GiB), 1 × unknown (unknown), driver 550.54, CUDA unknown\nLIBRARY  VERSION  PATH               FITS\nNCCL     2.19.3   /lib/libnccl.so.2  yes\nGPUs of b: unknown: no driver\n" +
			"1 links: round trips take 50 µs (median) to 50 µs (a and b); the slower direction carries 1 GB/s (median) to 1 GB/s (a and b)\n" + x.want
		if !strings.HasSuffix(b.String(), want) || !strings.Contains(b.String(), "32 GiB of 64 GiB") {
			t.Errorf("got  %s\nwant %s", b.String(), want)
		}
	}
}
