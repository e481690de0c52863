package plan

import (
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// hundredG is a plan on 512 ranks whose tables have 1000 rows so far: 16 values in bfloat16 and one number of state.
func hundredG() *Plan {
	shape := sparse.Table{Values: table.BFloat16, Parts: []sparse.Part{{Dim: 16, Rule: optim.Rule{Kind: "rowwise_adagrad"}}}}
	return &Plan{
		WorldSize: 512, StepBytes: 511_000_000, Batch: 65536,
		Tables: []Table{{Name: "ids", Rows: 1000, Row: rowOf(shape)}},
		Dense:  Dense{Parameters: 1000, ValueBytes: 4000, GradientBytes: 4000, OptimizerBytes: 4000, StepBytes: 2 * 511 * 4000},
	}
}

// TestHundredG adds up by hand a model of 100 G parameters on 64 hosts.
func TestHundredG(t *testing.T) {
	c, err := ParseCluster("hosts=64,memory_gib=16,network_gbit=25,disk_gb=2,step_ms=20,price=.5,keys=6.25e9")
	fatal.If(t, err)
	s, err := hundredG().On(*c)
	fatal.If(t, err)
	const (
		rows, hosts = 6.25e9, 64
		record      = 16*2 + 4
		saved       = rows*(8+record) + 8000
	)
	about := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 1e-4 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	about("ranks", float64(s.Ranks), 8)
	about("parameters", s.Parameters, 16*rows+1000)
	about("memory", s.HostBytes, rows*(record+4+28)/hosts+8*12000)
	about("hosts", s.LeastHosts, 31) // 425 GB of rows, 13.7 GB for them on a host
	about("checkpoint", s.CheckpointBytes, saved)
	about("save", s.SaveTime, saved/hosts/2e9)
	about("load", s.LoadTime, saved/hosts/2e9+rows/512*147e-9)
	about("link", s.LinkBytes, (511e6*63/64*512/511+2*63*4000)/hosts)
	about("link time", s.LinkTime, s.LinkBytes*8/25e9)
	about("step", s.StepTime, .02)
	about("speed", s.Speed, 65536/.02)
	about("day", s.Day, 64*24*.5)
	if !s.IndexFits || s.DiskShare != 0 {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"nothing", "on 64 hosts of", "8 ranks each", "31 hosts would do", "6.25 billion", " 100 billion", " 20 ms", " 2.5 ms ", " 2.1 s ", " 3.9 s ", "3.28 million", "768.00"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("%q is not in\n%v", want, s)
		}
	}
}

// TestTooLittleMemory: what does not fit is on disk, except for the index.
func TestTooLittleMemory(t *testing.T) {
	p := hundredG()
	s, err := p.On(Cluster{Hosts: 64, Memory: 6, Network: 25, Disk: 1, Keys: 6.25e9})
	fatal.If(t, err)
	room := .8 * 6 * (1 << 30)
	if want := (s.HostBytes - room) / (6.25e9 * 36 / 64); math.Abs(s.DiskShare-want) > 1e-6 || !strings.Contains(s.String(), "tables[].tier") {
		t.Errorf("%v of the records on disk, want %v:\n%v", s.DiskShare, want, s)
	}
	if s, err = p.On(Cluster{Hosts: 64, Memory: 2, Network: 25, Disk: 1, Keys: 6.25e9}); err != nil || s.IndexFits || !strings.Contains(s.String(), "impossible") {
		t.Errorf("%v\n%v", err, s)
	}
	if _, err = p.On(Cluster{Hosts: 63, Memory: 2, Network: 25, Disk: 1}); err == nil {
		t.Error("512 ranks on 63 hosts")
	}
	if s, err = p.On(Cluster{Hosts: 1, Memory: 2, Network: 25, Disk: 1}); err != nil || s.LinkBytes != 0 || s.Rows != 1000 || !strings.Contains(s.String(), "on 1 host of") || !strings.Contains(s.String(), " 1 host would do") || !strings.Contains(s.String(), " 1,000 ") {
		t.Errorf("one host: %v, %+v", err, s)
	}
}

func TestClusterFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                       `there is no ""`,
		"memory_gib=16":          "hosts is missing: add hosts=N",
		"hosts=0":                "hosts=0",
		"hosts=64,hosts=32":      "hosts is given twice",
		"hosts=4, price=1,price": "price=",
		"hosts=1.5":              "hosts=1.5",
		"hosts=4,network=25":     `there is no "network"; did you mean network_gbit?`,
		"hosts=4,disk_gb=fast":   `disk_gb="fast"`,
		"hosts=4,keys=-1":        `keys="-1"`,
		"hosts=4,keys=NaN":       `keys="NaN"`,
		"hosts=4,memory_gib=0":   "must not be 0",
		"hosts=4,network_gbit=0": "must not be 0",
	} {
		if _, err := ParseCluster(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestUnits: numbers have few digits and a unit that people read.
func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"0": count(0), "999,400": count(999_400.4), "1.00 million": count(999_999.6), "36.4 million": count(36.41e6), "999 million": count(999.4e6),
		"100 billion": count(1e11), "6.25 billion": count(6.25e9), "1.50 trillion": count(1.5e12), "20.0 · 10¹⁵": count(2e16),
		"0 ms": lasting(0), "0.18 ms": lasting(178e-6), "1.0 ms": lasting(1e-3), "20 ms": lasting(.02), "998 ms": lasting(.998), "1.0 s": lasting(.9999),
		"4.7 s": lasting(4.687543), "119 s": lasting(119), "2.0 min": lasting(120), "90 min": lasting(5400), "2.5 h": lasting(9000), "1000 h": lasting(3600e3),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
