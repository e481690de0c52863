package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/sparse"
)

// String describes a plan: the expected needs of each table, the reason for its strategy, and
// the load of each rank.
func (p *Plan) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d steps, %d samples an epoch; estimated from %d of them\n", plural.Of(p.WorldSize, "rank"), p.Steps, p.EpochRows, p.Samples)
	with := ""
	if p.Copies {
		with = ", both with the copies on second ranks"
	}
	fmt.Fprintf(&b, "%s of rows and index at the end, %s a step between ranks%s, the busiest rank %.2f × the mean\n", Bytes(p.MemoryBytes), Bytes(p.StepBytes), with, p.Imbalance)
	fmt.Fprintf(&b, "dense part: %v, %s a step between ranks for the allreduce\n", p.Dense, Bytes(p.Dense.StepBytes))
	if p.Device != nil {
		fmt.Fprintf(&b, "GPU: %v\n", *p.Device)
		libraries.Write(&b, p.Device.Libraries)
	}
	fmt.Fprintln(&b)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "table\tstrategy\trows\tmemory\ta step\tas rows\tpooled\t  why\n")
	for _, t := range p.Tables {
		fmt.Fprintf(w, "%s\t%v\t%d\t%s\t%s\t%s\t%s\t  %s\n", t.Name, t.Strategy, t.Rows, Bytes(t.MemoryBytes), Bytes(t.StepBytes),
			t.would(sparse.Rows), t.would(sparse.Pooled), t.Why)
	}
	w.Flush()
	for _, t := range p.Tables {
		if t.SightingBytes > 0 {
			fmt.Fprintf(&b, "%s: %s of the memory count occurrences of keys; the rows assume that every key is admitted\n", t.Name, Bytes(t.SightingBytes))
		}
	}
	fmt.Fprintln(&b, "\nmemory and bytes a step, by rank")
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := p.columns()
	fmt.Fprint(w, "table")
	for _, at := range columns {
		fmt.Fprintf(w, "\trank %d\t", at)
	}
	fmt.Fprintln(w, "\t")
	for _, t := range p.Tables {
		fmt.Fprint(w, t.Name)
		for _, at := range columns {
			fmt.Fprintf(w, "\t%s\t%s", Bytes(t.Ranks[at].MemoryBytes), Bytes(t.Ranks[at].StepBytes))
		}
		fmt.Fprintln(w, "\t")
	}
	fmt.Fprint(w, "all")
	for _, at := range columns {
		fmt.Fprintf(w, "\t%s\t%s", Bytes(p.Ranks[at].MemoryBytes), Bytes(p.Ranks[at].WireBytes))
	}
	fmt.Fprintln(w, "\t")
	w.Flush()
	if n := p.WorldSize - len(columns); n > 0 {
		fmt.Fprintf(&b, "and %d more ranks: -json has them\n", n)
	}
	return b.String()
}

// String describes the memory of a rank.
func (d Dense) String() string {
	return fmt.Sprintf("%d parameters, %s on each rank (parameters %s, gradients %s, optimizer %s)", d.Parameters,
		Bytes(d.MemoryBytes()), Bytes(d.ValueBytes), Bytes(d.GradientBytes), Bytes(d.OptimizerBytes))
}

// String describes the memory on a GPU.
func (d Device) String() string {
	does := ""
	if d.MemoryBytes > d.FreeBytes {
		does = ", so it does not fit: use a smaller batch or model"
	}
	return fmt.Sprintf("%s for each rank, without the memory of CUDA, cuBLAS and NCCL; %s are free%s", Bytes(d.MemoryBytes), Bytes(d.FreeBytes), does)
}

// columns returns the ranks that fit in the width of a page.
func (p *Plan) columns() (ranks []int) {
	const most = 4
	for r := range min(p.WorldSize, most) {
		ranks = append(ranks, r)
	}
	return ranks
}

// InPlace is the reason for the strategy rows if ranks share memory.
const InPlace = "the ranks share memory and read rows in place"

// Exchange returns a line about the traffic of the tables and its reasons; "" if there is no
// traffic.
func (p *Plan) Exchange() string {
	if !slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Why != InPlace }) {
		return ""
	}
	var rows int
	var why string
	var others []string
	for _, t := range p.Tables {
		if t.Strategy == sparse.Rows {
			rows++
			why = t.Why
		} else {
			others = append(others, fmt.Sprintf("%s %v (%s)", t.Name, t.Strategy, t.Why))
		}
	}
	line := "exchange of tables: "
	switch {
	case rows == 1:
		line += fmt.Sprintf("1 as rows (%s)", why)
	case rows > 1 && len(others) == 0:
		line += fmt.Sprintf("all %d as rows (%s)", rows, why)
	case rows > 1:
		line += fmt.Sprintf("%d as rows", rows)
	}
	if rows > 0 && len(others) > 0 {
		line += "; "
	}
	return line + strings.Join(others, "; ")
}
