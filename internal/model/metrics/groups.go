package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// GroupMetrics measures how well the model ranks the samples within each group, such as those
// of a user.
type GroupMetrics struct {
	Field string `json:"field"` // field whose values are the groups
	// GAUC is the mean of the groups' AUC, each weighted by its samples (Zhou et al.
	// 2018); null if no group has samples of both classes.
	GAUC            *float64 `json:"gauc"`
	Groups          int64    `json:"groups"`  // groups with both classes
	Samples         int64    `json:"samples"` // samples of these groups
	OneClassGroups  int64    `json:"one_class_groups"`
	OneClassSamples int64    `json:"one_class_samples"`
	Missing         int64    `json:"missing"`     // samples without a group
	Share           float64  `json:"group_share"` // share of the groups that were evaluated; below 1 with more than 2^24 samples
}

// String returns one line for people.
func (g GroupMetrics) String() string {
	line := fmt.Sprintf("GAUC undefined by %s (no value has samples of both classes)", g.Field)
	if g.GAUC != nil {
		line = fmt.Sprintf("GAUC %.4f by %s: %d groups, %d samples", *g.GAUC, g.Field, g.Groups, g.Samples)
	}
	line += fmt.Sprintf("; not counted: %s of one class (%s), %s without a value", plural.Of(int(g.OneClassGroups), "group"), plural.Of(int(g.OneClassSamples), "sample"), plural.Of(int(g.Missing), "sample"))
	if g.Share < 1 {
		line += fmt.Sprintf("; of a random %.2g %% of the groups, for memory", 100*g.Share)
	}
	return line
}

// maxGrouped is the average number of samples that Groups keeps, over all ranks (400 MB).
const maxGrouped = 1 << 24

// Groups collects the predictions of an evaluation by group.
type Groups struct {
	share   float64
	limit   uint64 // groups up to this one are kept
	missing int64
	samples []grouped
}

// grouped is one sample.
type grouped struct {
	group uint64
	place uint64 // 2 × index of its logit in the order of logits + class
	units uint64 // weight
}

// NewGroups returns a Groups for the given number of samples over all ranks. If they exceed
// the memory limit, a share of the groups is evaluated, the same on any number of ranks.
func NewGroups(samples int64) *Groups {
	g := &Groups{share: 1, limit: math.MaxUint64}
	if samples > maxGrouped {
		g.share = maxGrouped / float64(samples)
		g.limit = uint64(math.Ldexp(g.share, 64))
	}
	return g
}

// Add adds a sample of a group, given by its hash. weight is 1 if samples have no weights.
func (g *Groups) Add(group uint64, logit, label, weight float32) {
	if group > g.limit {
		return
	}
	s := grouped{group, uint64(ordered(logit)) << 1, uint64(unitsOf(weight))}
	if label > 0.5 {
		s.place |= 1
	}
	g.samples = append(g.samples, s)
}

// Miss counts a sample without a group.
func (g *Groups) Miss() { g.missing++ }

// Reduce returns the metrics of all samples, the same on each rank. Each rank computes some
// groups, whose samples it receives from the other ranks.
func (g *Groups) Reduce(c *collective.Comm) (GroupMetrics, error) {
	own, err := g.exchange(c)
	if err != nil {
		return GroupMetrics{}, err
	}
	var m GroupMetrics
	var aucs sum // sum of AUC × weight
	var weight int64
	slices.SortFunc(own, compareGrouped)
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n].group == own[0].group {
			n++
		}
		if auc, units := groupAUC(own[:n]); units == 0 {
			m.OneClassGroups++
			m.OneClassSamples += int64(n)
		} else {
			m.Groups++
			m.Samples += int64(n)
			aucs.add(auc * float64(units) / One)
			weight += units
		}
		own = own[n:]
	}
	all := []int64{m.Groups, m.Samples, m.OneClassGroups, m.OneClassSamples, g.missing, weight, aucs.whole, aucs.part}
	if err := collective.AllReduce(c, all, collective.Sum); err != nil {
		return GroupMetrics{}, err
	}
	m = GroupMetrics{Groups: all[0], Samples: all[1], OneClassGroups: all[2], OneClassSamples: all[3], Missing: all[4], Share: g.share}
	if all[5] > 0 {
		gauc := sum{all[6], all[7]}.value() / (float64(all[5]) / One)
		m.GAUC = &gauc
	}
	return m, nil
}

// compareGrouped orders samples by group, and then by logit.
func compareGrouped(a, b grouped) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.place, b.place), cmp.Compare(a.units, b.units))
}

// groupAUC returns the AUC of samples in the order of their logits, with ties counting half,
// and their weight. The weight is 0 if the samples are of one class.
func groupAUC(samples []grouped) (auc float64, units int64) {
	var weight [2]int64 // by class
	var pairs float64
	for len(samples) > 0 {
		var tied [2]int64
		n := 0
		for ; n < len(samples) && samples[n].place>>1 == samples[0].place>>1; n++ {
			tied[samples[n].place&1] += int64(samples[n].units)
		}
		pairs += float64(float64(tied[1]) * (float64(weight[0]) + float64(tied[0])/2))
		weight[0], weight[1] = weight[0]+tied[0], weight[1]+tied[1]
		samples = samples[n:]
	}
	if weight[0] == 0 || weight[1] == 0 {
		return 0, 0
	}
	return pairs / (float64(weight[0]) * float64(weight[1])), weight[0] + weight[1]
}

const groupedWords = 3

// exchange sends each sample to the rank that computes its group.
func (g *Groups) exchange(c *collective.Comm) ([]grouped, error) {
	size := uint64(c.Size())
	counts, at := make([]int64, size), make([]int64, size)
	for _, s := range g.samples {
		counts[s.group%size] += groupedWords
	}
	for r := range at[1:] {
		at[r+1] = at[r] + counts[r]
	}
	words := make([]int64, groupedWords*len(g.samples))
	for _, s := range g.samples {
		to := &at[s.group%size]
		words[*to], words[*to+1], words[*to+2] = int64(s.group), int64(s.place), int64(s.units)
		*to += groupedWords
	}
	g.samples = nil
	mine, err := exchange(c, words, counts)
	if err != nil {
		return nil, err
	}
	own := make([]grouped, len(mine)/groupedWords)
	for i := range own {
		w := mine[groupedWords*i:]
		own[i] = grouped{uint64(w[0]), uint64(w[1]), uint64(w[2])}
	}
	return own, nil
}
