// Package plan estimates the needs of a training: the memory and traffic of each table, the
// best way to exchange it between ranks, and the owner of each shard. It reads a sample of
// the data and does not train. All ranks make the same plan from the same data.
package plan

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Plan holds the expected needs of a training on a number of ranks, the strategy of each
// table and the owner of each shard. It depends only on the configuration and the data, of
// which it reads a sample.
type Plan struct {
	WorldSize   int               `json:"world_size"`
	Samples     int64             `json:"samples"`    // samples read
	EpochRows   int64             `json:"epoch_rows"` // samples of an epoch
	Batch       int               `json:"global_batch"`
	Steps       int64             `json:"steps"`            // steps of the training in whole batches, without early stopping
	StepBytes   int64             `json:"bytes_per_step"`   // over all ranks: keys, rows and gradients
	MemoryBytes int64             `json:"memory_bytes"`     // over all ranks, at the end
	Copies      bool              `json:"copies,omitempty"` // bytes include copies
	Imbalance   float64           `json:"imbalance"`        // bytes sent by the busiest rank divided by the mean
	Dense       Dense             `json:"dense"`
	Device      *Device           `json:"device,omitempty"` // if the training may use GPUs
	Tables      []Table           `json:"tables"`
	Ranks       []sparse.RankLoad `json:"ranks"` // wire_bytes are per step
	Owner       []int32           `json:"owner"` // rank by shard
}

// Dense holds the needs of the dense part of the model, which every rank holds completely.
// Bytes of tables do not include it.
type Dense struct {
	Parameters     int64 `json:"parameters"`
	ValueBytes     int64 `json:"value_bytes"`     // per rank: parameters and statistics
	GradientBytes  int64 `json:"gradient_bytes"`  // per rank, all threads
	OptimizerBytes int64 `json:"optimizer_bytes"` // per rank
	StepBytes      int64 `json:"bytes_per_step"`  // over all ranks: the allreduce of gradients
}

// Device holds the needs of a rank on its GPU, and what the GPUs of this machine have.
type Device struct {
	MemoryBytes int64               `json:"memory_bytes"` // without the memory of CUDA, cuBLAS and NCCL
	FreeBytes   int64               `json:"free_bytes"`   // of the GPU with the least
	Libraries   []libraries.Library `json:"libraries"`
}

// NewDense returns the needs of a dense part of the given size. An allreduce of n bytes sends
// 2(P−1)n bytes in total, the minimum of any algorithm.
func NewDense(size dense.Size, threads, ranks int) Dense {
	const float = 4
	d := Dense{
		Parameters: int64(size.Parameters), ValueBytes: float * int64(size.Values), OptimizerBytes: float * int64(size.State),
		GradientBytes: float * (int64(size.Gradients) + int64(threads-1)*int64(size.Parameters)),
	}
	d.StepBytes = 2 * int64(ranks-1) * float * int64(size.Gradients)
	return d
}

// MemoryBytes returns the memory that a rank needs for the dense part.
func (d Dense) MemoryBytes() int64 { return d.ValueBytes + d.GradientBytes + d.OptimizerBytes }

// Table holds the expected needs of one table.
type Table struct {
	Name          string          `json:"name"`
	Asked         string          `json:"asked"`    // tables[].strategy
	Strategy      sparse.Strategy `json:"strategy"` // chosen strategy
	Why           string          `json:"why"`
	Demand        sparse.Demand   `json:"demand"` // demand of the sample
	Rows          int64           `json:"rows"`   // at the end; an upper bound with limits or admission
	Row           Row             `json:"row"`
	MemoryBytes   int64           `json:"memory_bytes"`             // over all ranks
	SightingBytes int64           `json:"sighting_bytes,omitempty"` // part of MemoryBytes: counters of keys that are not admitted yet
	StepBytes     int64           `json:"bytes_per_step"`           // over all ranks
	ByStrategy    []StrategyBytes `json:"by_strategy"`              // strategies that the table could have
	TierLeast     int64           `json:"tier_least,omitempty"`     // if the tier is too small for the index: least memory of a rank in bytes
	Ranks         []Share         `json:"ranks"`
}

// Row holds the needs of a row of a table.
type Row struct {
	Values      int   `json:"values"`
	RecordBytes int64 `json:"record_bytes"` // values and optimizer state, which a tier moves to disk
	IndexBytes  int64 `json:"index_bytes"`  // always in memory; without the bytes of a shard
}

func rowOf(t sparse.Table) (r Row) {
	for _, p := range t.Parts {
		r.Values += p.Dim
	}
	const many = 1 << 20 // beside them, the bytes of a shard vanish
	r.IndexBytes = sparse.IndexBytes(t, many, 1) / many
	r.RecordBytes = (sparse.MemoryBytes(t, many, 1) - sparse.IndexBytes(t, many, 1)) / many
	return r
}

// StrategyBytes is the traffic of a step with a strategy.
type StrategyBytes struct {
	Strategy  sparse.Strategy `json:"strategy"`
	StepBytes int64           `json:"bytes_per_step"`
}

// Share is a rank's share of a table.
type Share struct {
	Rows        int64 `json:"rows"`
	MemoryBytes int64 `json:"memory_bytes"`
	StepBytes   int64 `json:"bytes_per_step"`
}

// Given holds the decisions made before the plan. The zero value leaves all decisions to the
// plan.
type Given struct {
	Strategies map[string]sparse.Strategy // previous strategies by table name
	Owner      []int32                    // rank by shard; nil: the plan's choice
	Even       string                     // why tables with strategy auto use rows; "": they need not
	Dense      Dense                      // dense part of the model
	Backup     int                        // microbatches of a step that do not count
	Copies     bool                       // each rank keeps copies of another's rows
	Counts     [][]byte                   // sample, from the Sampler of each rank; nil: Estimate reads one
	Step       func()                     // called after each step of a sample that Estimate reads; may be nil
}

// Estimate plans a training of a filled configuration on the given number of ranks. Without
// data, as for a stream, it reads no sample.
func Estimate(ctx context.Context, c *config.Config, e *encode.Encoder, d *data.Dataset, ranks int, g Given) (*Plan, error) {
	l := layout.New(c, e.Sparse(), e.Dense())
	s := newSample(l, ranks, layout.Shards)
	rows := int64(0)
	if d != nil {
		rows = d.Rows(data.Train)
		err := error(nil)
		if g.Counts != nil {
			err = s.merge(g.Counts)
		} else {
			err = s.readSteps(ctx, c, e, d, g.Step)
		}
		if err != nil {
			return nil, err
		}
	}
	p := &Plan{
		WorldSize: ranks, Samples: s.rows, EpochRows: rows, Batch: c.Train.Global(ranks),
		Steps: int64(c.Train.Epochs) * data.Steps(rows, c.Train.Global(ranks)), Copies: g.Copies, Dense: g.Dense,
	}
	if g.Backup > 0 {
		microbatches := int64(ranks) * data.Steps(rows, c.Train.Global(ranks))
		p.Steps = int64(c.Train.Epochs) * data.Steps(microbatches, ranks-g.Backup)
	}
	loads := make([]sparse.ShardLoad, s.shards)
	for t := range l.Tables {
		p.Tables = append(p.Tables, s.plan(t, rows, g))
	}
	p.weigh()
	for t, tp := range p.Tables {
		if g.Copies {
			p.Tables[t].StepBytes += s.mirrored(t)
		}
		p.StepBytes += p.Tables[t].StepBytes
		s.load(t, tp, loads)
	}
	if p.Owner = g.Owner; p.Owner == nil {
		ranges := make([]int32, s.shards)
		for i := range ranges {
			ranges[i] = int32(sparse.OwnerOf(i, s.shards, ranks))
		}
		p.Owner = Balanced(loads, ranges, ranks)
	}
	s.divide(p)
	return p, nil
}

// plan chooses the strategy of a table.
func (s *sample) plan(t int, epoch int64, g Given) Table {
	x, tb := &s.tables[t], s.layout.Tables[t]
	x.demand.Sums = int64(x.sums)
	p := Table{Name: tb.Name, Asked: s.layout.Asked[t], Demand: x.demand, Rows: s.kept(t, s.grown(t, epoch)), Row: rowOf(tb)}
	for _, how := range []sparse.Strategy{sparse.Rows, sparse.Pooled} {
		if how.Refuses(tb) == nil {
			p.ByStrategy = append(p.ByStrategy, StrategyBytes{how, how.Bytes(x.demand, tb, s.ranks)})
		}
	}
	was, kept := g.Strategies[tb.Name]
	switch forced, auto := layout.Strategy(p.Asked); {
	case !auto:
		p.Strategy, p.Why = forced, "as configured"
	case g.Even != "":
		p.Strategy, p.Why = sparse.Rows, g.Even
	case kept:
		p.Strategy, p.Why = was, asBefore
	default:
		p.Strategy = sparse.Choose(x.demand, tb, s.ranks)
		p.Why = p.fewest()
	}
	p.StepBytes = p.Strategy.Bytes(x.demand, tb, s.ranks)
	return p
}

// asBefore is the reason given if a resumed training keeps its strategies.
const asBefore = "as before the checkpoint"

// weigh withdraws Pooled from the tables that chose it if their total saving does not justify
// the additional exchanges in a step. If some table is pooled anyway, the exchanges take place
// in any case.
func (p *Plan) weigh() {
	const how = sparse.Pooled
	cost, saved := int64(how.Exchanges()*p.WorldSize*(p.WorldSize-1)*sparse.MessageBytes), int64(0)
	for _, t := range p.Tables {
		if t.Strategy == how {
			if t.Asked != "auto" || t.Why == asBefore {
				return
			}
			saved += t.ByStrategy[sparse.Rows].StepBytes - t.StepBytes
		}
	}
	for i := range p.Tables {
		if t := &p.Tables[i]; t.Strategy == how && saved < cost {
			t.Strategy, t.StepBytes = sparse.Rows, t.ByStrategy[sparse.Rows].StepBytes
			t.Why = fmt.Sprintf("%s a step; %v tables would save %s and cost %d more exchanges, worth %s", Bytes(t.StepBytes), how, Bytes(saved), how.Exchanges(), Bytes(cost))
		}
	}
}

// mirrored returns the bytes that owners send for copies in a step: the key and the summed
// gradient of each distinct key.
func (s *sample) mirrored(t int) int64 {
	x, width := &s.tables[t], 0
	for _, part := range s.layout.Tables[t].Parts {
		width += part.Dim
	}
	return x.demand.Union * int64(8+4*width) / max(x.demand.Steps, 1)
}

// load adds the requests and rows of a table's shards to loads. It counts bytes as if the
// strategy were rows, so that owners are the same on every transport.
func (s *sample) load(t int, p Table, loads []sparse.ShardLoad) {
	x := &s.tables[t]
	held, all := s.held(t)
	for i := range loads {
		load := &loads[i]
		load.Keys += x.asked[i]
		load.Rows += part(p.Rows, held[i], all)
		load.WireBytes += part(p.ByStrategy[sparse.Rows].StepBytes, x.asked[i], x.demand.Unique)
	}
}

// part returns x·n/total.
func part(x, n, total int64) int64 {
	if total == 0 {
		return 0
	}
	return int64(float64(x) * float64(n) / float64(total))
}

// Tolerated is the largest load of a rank, in bytes sent, divided by the mean, before shards
// are moved. Smaller differences in a sample may be chance.
const Tolerated = 1.05

// Balanced returns the given owners (rank by shard) if they carry the loads evenly enough,
// and new ones otherwise. owner may be nil.
func Balanced(loads []sparse.ShardLoad, owner []int32, ranks int) []int32 {
	if owner != nil {
		of := make([]sparse.RankLoad, ranks)
		for i, r := range owner {
			of[r].WireBytes += loads[i].WireBytes
		}
		if (sparse.Plan{Ranks: of}).Imbalance() <= Tolerated {
			return owner
		}
	}
	return sparse.Place(loads, owner, ranks).Owner
}

// divide divides the rows and traffic of the tables among their owners.
func (s *sample) divide(p *Plan) {
	ranks := int64(p.WorldSize)
	p.Ranks = make([]sparse.RankLoad, p.WorldSize)
	for _, r := range p.Owner {
		p.Ranks[r].Shards++
	}
	for t := range p.Tables {
		tp, x := &p.Tables[t], &s.tables[t]
		held, all := s.held(t)
		rows, asked, whole := make([]int64, ranks), make([]int64, ranks), make([]int64, ranks)
		for shard, r := range p.Owner {
			rows[r] += held[shard]
			asked[r] += x.asked[shard]
		}
		for r := range p.Ranks {
			own := Share{Rows: part(tp.Rows, rows[r], all), StepBytes: part(tp.StepBytes, asked[r], x.demand.Unique)}
			own.MemoryBytes = sparse.MemoryBytes(s.layout.Tables[t], own.Rows, p.Ranks[r].Shards)
			whole[r] = own.MemoryBytes
			if most := s.layout.Tiers[t].Memory << 20; most > 0 {
				if least := table.TierLeast(sparse.IndexBytes(s.layout.Tables[t], own.Rows, p.Ranks[r].Shards)); most < least && most < own.MemoryBytes {
					tp.TierLeast, most = max(tp.TierLeast, least), least
				}
				own.MemoryBytes = min(own.MemoryBytes, most)
			}
			sightings := sparse.SightingBytes(s.layout.Tables[t], own.Rows, p.Ranks[r].Shards, s.shards)
			whole[r], own.MemoryBytes, tp.SightingBytes = whole[r]+sightings, own.MemoryBytes+sightings, tp.SightingBytes+sightings
			tp.Ranks = append(tp.Ranks, own)
			sum := &p.Ranks[r]
			sum.Rows += own.Rows
			sum.Keys, sum.WireBytes = sum.Keys+asked[r]/max(x.demand.Steps, 1), sum.WireBytes+own.StepBytes
		}
		for r := range tp.Ranks {
			x := &tp.Ranks[r]
			if p.Copies { // copy of the previous rank's rows, in memory even with a tier
				x.MemoryBytes += whole[(r+p.WorldSize-1)%p.WorldSize]
			}
			tp.MemoryBytes += x.MemoryBytes
			p.Ranks[r].MemoryBytes += x.MemoryBytes
		}
		p.MemoryBytes += tp.MemoryBytes
	}
	p.Imbalance = sparse.Plan{Ranks: p.Ranks}.Imbalance()
}

// Strategies returns the chosen strategy of each table.
func (p *Plan) Strategies() map[string]sparse.Strategy {
	all := map[string]sparse.Strategy{}
	for _, t := range p.Tables {
		all[t.Name] = t.Strategy
	}
	return all
}

// Bytes formats a number of bytes with three significant digits.
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n), -1
	for x >= 999.5 {
		x, unit = x/1e3, unit+1
	}
	digits := 2
	switch {
	case x >= 99.95:
		digits = 0
	case x >= 9.995:
		digits = 1
	}
	return fmt.Sprintf("%.*f %cB", digits, x, "kMGTPE"[unit])
}

// fewest returns the reason for choosing the strategy with the least traffic.
func (t *Table) fewest() string {
	switch rows := t.would(sparse.Rows); {
	case t.ByStrategy[sparse.Rows].StepBytes == 0:
		return "nothing travels"
	case t.Strategy == sparse.Rows:
		return rows + " a step, and no other way saves a fifth"
	default:
		return fmt.Sprintf("%s a step, %s as rows", t.would(t.Strategy), rows)
	}
}

// would formats the traffic of a step with a strategy; – if the table cannot have it.
func (t *Table) would(how sparse.Strategy) string {
	for _, x := range t.ByStrategy {
		if x.Strategy == how {
			return Bytes(x.StepBytes)
		}
	}
	return "–"
}
