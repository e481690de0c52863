package plan

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Cluster describes hosts that need not exist. The ranks of a plan are divided among them evenly.
type Cluster struct {
	Hosts   int     `json:"hosts"`
	Memory  float64 `json:"memory_gib"`   // GiB of a host
	Network float64 `json:"network_gbit"` // Gbit/s of a host's link, in each direction
	Disk    float64 `json:"disk_gb"`      // GB/s that a host writes to its disk, and reads
	Step    float64 `json:"step_ms"`      // ms that a rank computes in a step, as measured by bench step; 0: unknown
	Price   float64 `json:"price"`        // of a host for an hour; 0: unknown
	Keys    float64 `json:"keys"`         // rows of all tables at the end; 0: as estimated from the data
}

// ParseCluster parses NAME=NUMBER,…, with the names of Cluster in JSON.
func ParseCluster(text string) (*Cluster, error) {
	c := &Cluster{Memory: 16, Network: 25, Disk: 1}
	hosts := 0.0
	to := map[string]*float64{"hosts": &hosts, "memory_gib": &c.Memory, "network_gbit": &c.Network, "disk_gb": &c.Disk, "step_ms": &c.Step, "price": &c.Price, "keys": &c.Keys}
	given := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		x := to[name]
		if x == nil {
			var names []string
			for n := range to {
				names = append(names, n)
			}
			slices.Sort(names)
			return nil, fmt.Errorf("cluster: there is no %q%s", name, nearest.Instead(name, names))
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > 1e15 {
			return nil, fmt.Errorf("cluster: %s=%q: give a number from 0 to 1e15", name, value)
		}
		if given[name] {
			return nil, fmt.Errorf("cluster: %s is given twice: keep one", name)
		}
		*x, given[name] = n, true
	}
	if !given["hosts"] {
		return nil, fmt.Errorf("cluster: hosts is missing: add hosts=N, the number of hosts")
	}
	if c.Hosts = int(hosts); float64(c.Hosts) != hosts || hosts < 1 || hosts > maxHosts {
		return nil, fmt.Errorf("cluster: hosts=%v: give a whole number from 1 to %d", hosts, maxHosts)
	}
	if c.Memory == 0 || c.Network == 0 || c.Disk == 0 {
		return nil, fmt.Errorf("cluster: memory_gib, network_gbit and disk_gb must not be 0")
	}
	return c, nil
}

const (
	maxHosts = 1 << 16
	// forRows is the share of a host's memory for rows and index; the rest is for the program, its
	// buffers and the page cache.
	forRows = .8
	// insertTime is the time in which a rank inserts a row that it has read: docs/benchmarks.md,
	// 7.9 × the 18.6 ns of finding one.
	insertTime = 147e-9
)

// Scale holds the needs of a plan on a cluster. Times are in seconds.
type Scale struct {
	Cluster         Cluster `json:"cluster"`
	Ranks           int     `json:"ranks"`       // of a host
	Rows            float64 `json:"rows"`        // of all tables
	Parameters      float64 `json:"parameters"`  // of all tables, and the dense part once
	HostBytes       float64 `json:"host_bytes"`  // rows, index and dense part of a host, if all are in memory
	DiskShare       float64 `json:"disk_share"`  // part of the records that does not fit in memory
	LeastHosts      float64 `json:"least_hosts"` // hosts that hold everything in memory
	IndexFits       bool    `json:"index_fits"`  // otherwise no tier helps
	LinkBytes       float64 `json:"link_bytes"`  // that a host sends in a step
	LinkTime        float64 `json:"link_time"`   // of a step
	StepTime        float64 `json:"step_time"`   // the longer of compute and link; they overlap
	Speed           float64 `json:"samples_per_second"`
	CheckpointBytes float64 `json:"checkpoint_bytes"` // of all hosts
	SaveTime        float64 `json:"save_time"`
	LoadTime        float64 `json:"load_time"`
	Day             float64 `json:"day"` // price of all hosts
}

// On returns the needs of the plan on a cluster.
func (p *Plan) On(c Cluster) (*Scale, error) {
	if p.WorldSize%c.Hosts != 0 {
		return nil, fmt.Errorf("cluster: hosts=%d: %d ranks cannot be divided among them evenly; give another -np", c.Hosts, p.WorldSize)
	}
	s := &Scale{Cluster: c, Ranks: p.WorldSize / c.Hosts, Parameters: float64(p.Dense.Parameters)}
	hosts, grown := float64(c.Hosts), 1.0
	for _, t := range p.Tables {
		s.Rows += float64(t.Rows)
	}
	if c.Keys > 0 && s.Rows > 0 {
		grown = c.Keys / s.Rows
		s.Rows = c.Keys
	}
	memory, index := 0.0, 0.0
	for _, t := range p.Tables {
		rows := float64(t.Rows) * grown
		index += float64(rows * float64(t.Row.IndexBytes))
		memory += float64(rows * float64(t.Row.IndexBytes+t.Row.RecordBytes))
		s.CheckpointBytes += float64(rows * float64(8+t.Row.RecordBytes))
		s.Parameters += float64(rows * float64(t.Row.Values))
	}
	if p.Copies {
		memory, index = float64(2*memory), float64(2*index)
	}
	room, own := float64(forRows*c.Memory*(1<<30)), float64(float64(s.Ranks)*float64(p.Dense.MemoryBytes()))
	s.HostBytes = memory/hosts + own
	s.IndexFits = index/hosts+own <= room
	if records := (memory - index) / hosts; s.HostBytes > room && records > 0 {
		s.DiskShare = min((s.HostBytes-room)/records, 1)
	}
	s.LeastHosts = math.Ceil(memory / max(room-own, 1))
	s.CheckpointBytes += float64(p.Dense.ValueBytes + p.Dense.OptimizerBytes)
	s.SaveTime = s.CheckpointBytes / hosts / (c.Disk * 1e9)
	s.LoadTime = s.SaveTime + float64(s.Rows/float64(p.WorldSize)*insertTime)
	s.links(p)
	s.Day = 24 * hosts * c.Price
	return s, nil
}

// links computes the traffic between hosts. Owners of keys are random, so a part (H-1)/H of what a rank
// needs is on other hosts, of (P-1)/P on other ranks. Gradients of the dense part are summed within a host first.
func (s *Scale) links(p *Plan) {
	hosts, ranks := float64(s.Cluster.Hosts), float64(p.WorldSize)
	if hosts > 1 {
		away := (hosts - 1) / hosts / ((ranks - 1) / ranks)
		s.LinkBytes = (float64(float64(p.StepBytes)*away) + float64(float64(p.Dense.StepBytes)*(hosts-1)/(ranks-1))) / hosts
	}
	s.LinkTime = s.LinkBytes * 8 / (s.Cluster.Network * 1e9)
	s.StepTime = max(s.LinkTime, s.Cluster.Step/1e3)
	if s.StepTime > 0 {
		s.Speed = float64(p.Batch) / s.StepTime
	}
}

// String returns a table of the needs, each with its formula.
func (s *Scale) String() string {
	var b bytes.Buffer
	c := s.Cluster
	fmt.Fprintf(&b, "on %s of %g GiB, %g Gbit/s and %g GB/s of disk, %s each\n", plural.Of(c.Hosts, "host"), c.Memory, c.Network, c.Disk, plural.Of(s.Ranks, "rank"))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(what, value, from string) { fmt.Fprintf(w, "  %s\t%s\t%s\n", what, value, from) }
	size := func(x float64) string { return Bytes(int64(min(x, math.MaxInt64/2))) }
	least, hold := plural.Of(int(min(s.LeastHosts, math.MaxInt32)), "host"), "hold"
	if s.LeastHosts == 1 {
		hold = "holds"
	}
	line("rows", count(s.Rows), "of all tables")
	line("parameters", count(s.Parameters), "rows × values of a row + dense part")
	line("memory of a host", size(s.HostBytes), fmt.Sprintf("(record + index of a row) × rows / hosts + dense part of each rank; %s are for it", size(forRows*c.Memory*(1<<30))))
	switch {
	case !s.IndexFits:
		line("on disk", "impossible", fmt.Sprintf("the index alone does not fit in memory; %s %s everything", least, hold))
	case s.DiskShare > 0:
		line("on disk", fmt.Sprintf("%.0f %% of the records", 100*s.DiskShare), fmt.Sprintf("tables[].tier; %s %s everything in memory", least, hold))
	default:
		line("on disk", "nothing", least+" would do")
	}
	line("a host sends in a step", size(s.LinkBytes), "keys, rows and gradients of other hosts, and the allreduce between hosts")
	line("a step's traffic takes", lasting(s.LinkTime), "bytes / rate of the link")
	if c.Step > 0 {
		line("a step takes", lasting(s.StepTime), fmt.Sprintf("the longer of %g ms of compute and the traffic", c.Step))
	} else {
		line("a step takes", "at least "+lasting(s.StepTime), "the traffic; step_ms=MS adds the compute that bench step measures")
	}
	line("samples/s", count(s.Speed), "global batch / step")
	line("checkpoint", size(s.CheckpointBytes), "(8-byte key + record) × rows + dense part")
	line("a checkpoint takes", lasting(s.SaveTime), "bytes / hosts / rate of the disk, while training")
	line("loading it takes", lasting(s.LoadTime), "the same + rows / ranks × 147 ns")
	if c.Price > 0 {
		line("a day costs", fmt.Sprintf("%.2f", s.Day), "hosts × 24 × price")
	}
	w.Flush()
	return b.String()
}

// count formats a number with three significant digits from a million on.
func count(x float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e15, "· 10¹⁵"}, {1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
		if x >= .9995*unit.of {
			return fmt.Sprintf("%s %s", short(x/unit.of, 3), unit.name)
		}
	}
	return plural.Grouped(int64(math.Round(x)))
}

// lasting formats a time in seconds with two significant digits.
func lasting(x float64) string {
	switch {
	case x >= 2*3600:
		return short(x/3600, 2) + " h"
	case x >= 2*60:
		return short(x/60, 2) + " min"
	case x >= .9995:
		return short(x, 2) + " s"
	}
	return short(x*1e3, 2) + " ms"
}

// short formats a number with the given significant digits or, if it is large, as an integer.
func short(x float64, digits int) string {
	if x <= 0 {
		return "0"
	}
	_, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', digits-1, 64), "e") // of the rounded number
	before, _ := strconv.Atoi(exponent)
	before++
	return strconv.FormatFloat(x, 'f', min(max(digits-before, 0), 9), 64)
}
