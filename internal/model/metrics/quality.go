package metrics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/wdlrun/wdlrun/collective"
)

// Quality holds the curves and intervals in a report about a model. They are computed from
// counts of logits (see maxBins).
type Quality struct {
	ROC       []Point     `json:"roc"`         // X: false positive rate, Y: true positive rate
	PR        []Point     `json:"pr"`          // X: recall, Y: precision
	Bins      []Bin       `json:"calibration"` // calibration in bins of equal weight, by prediction
	ECE       *float64    `json:"ece"`         // expected calibration error over Bins
	Intervals []Interval  `json:"intervals"`
	Slices    []SliceList `json:"slices,omitempty"`
	Features  []Feature   `json:"features"`

	DenseInputs []DenseInput `json:"dense_inputs,omitempty"`
}

// Point is a point of a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Bin is a range of predictions.
type Bin struct {
	Weight     float64 `json:"weight"` // weight of its samples
	Prediction float64 `json:"prediction"`
	Rate       float64 `json:"rate"` // share of positives
}

// Interval is a 95 % interval of a metric, by bootstrap.
type Interval struct {
	Metric string  `json:"metric"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const (
	curvePoints = 200 // approximate number of points of a curve
	binCount    = 20
	replicates  = 200
	bootBins    = 1000 // of the bootstrap, at most; its time grows with them
	bootSeed    = 21
)

// ofBin holds the weights of both classes in one bin of the histogram, in units, and the
// prediction at the middle of the bin.
type ofBin struct {
	class      [2]int64
	prediction float64
}

// bins returns the non-empty bins in the order of logits.
func (t *Tally) bins() (all []ofBin) {
	for _, b := range t.sorted() {
		middle := b.key<<t.drop | 1<<t.drop>>1
		all = append(all, ofBin{b.class, Probability(float64(unordered(middle)))})
	}
	return all
}

// unordered is the inverse of ordered.
func unordered(b uint32) float32 {
	if b>>31 == 1 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

// Quality computes the curves from the counts summed by Reduce. It is empty if all samples
// are of one class.
func (t *Tally) Quality() Quality {
	all := t.bins()
	var total [2]int64
	for _, b := range all {
		total[0], total[1] = total[0]+b.class[0], total[1]+b.class[1]
	}
	q := Quality{ROC: []Point{}, PR: []Point{}, Bins: []Bin{}, Intervals: []Interval{}}
	if total[0] == 0 || total[1] == 0 {
		return q
	}
	q.curves(all, total)
	q.calibrate(all, total)
	q.bootstrap(merged(all, (total[0]+total[1])/bootBins))
	return q
}

// curves computes ROC and PR from the highest threshold to the lowest.
func (q *Quality) curves(all []ofBin, total [2]int64) {
	q.ROC = append(q.ROC, Point{0, 0})
	var above [2]int64
	last := Point{}
	for i := len(all) - 1; i >= 0; i-- {
		above[0], above[1] = above[0]+all[i].class[0], above[1]+all[i].class[1]
		p := Point{float64(above[0]) / float64(total[0]), float64(above[1]) / float64(total[1])}
		if math.Abs(p.X-last.X)+math.Abs(p.Y-last.Y) < 2./curvePoints && i > 0 {
			continue
		}
		last = p
		q.ROC = append(q.ROC, p)
		q.PR = append(q.PR, Point{p.Y, float64(above[1]) / float64(above[0]+above[1])})
	}
}

// calibrate divides the samples into bins of nearly equal weight.
func (q *Quality) calibrate(all []ofBin, total [2]int64) {
	weight := float64(total[0] + total[1])
	var b Bin
	var positives, seen, ece float64
	for i, x := range all {
		n := float64(x.class[0] + x.class[1])
		b.Weight, seen = b.Weight+n, seen+n
		b.Prediction += float64(n * x.prediction)
		positives += float64(x.class[1])
		if seen < float64(weight*float64(len(q.Bins)+1))/binCount && i < len(all)-1 {
			continue
		}
		b.Prediction, b.Rate = b.Prediction/b.Weight, positives/b.Weight
		ece += float64(b.Weight / weight * math.Abs(b.Prediction-b.Rate))
		b.Weight /= One
		q.Bins = append(q.Bins, b)
		b, positives = Bin{}, 0
	}
	q.ECE = &ece
}

// merged joins neighbouring bins until each, but the last, has more than a weight.
func merged(all []ofBin, weight int64) (some []ofBin) {
	var sum ofBin
	var predicted float64
	for i, b := range all {
		sum.class[0], sum.class[1] = sum.class[0]+b.class[0], sum.class[1]+b.class[1]
		predicted += float64(float64(b.class[0]+b.class[1]) * b.prediction)
		if n := sum.class[0] + sum.class[1]; n > weight || i == len(all)-1 {
			sum.prediction = predicted / float64(n)
			some, sum, predicted = append(some, sum), ofBin{}, 0
		}
	}
	return some
}

// bootstrap resamples with replacement: the weight of each bin is drawn from the Poisson
// distribution with the weight as its mean.
func (q *Quality) bootstrap(all []ofBin) {
	source := rand.NewPCG(bootSeed, bootSeed)
	var auc, calibration []float64
	for range replicates {
		var below, positives, pairs, predicted float64
		for _, b := range all {
			n, p := poisson(b.class[0], source), poisson(b.class[1], source)
			pairs += float64(p * (below + n/2))
			below, positives = below+n, positives+p
			predicted += float64((n + p) * b.prediction)
		}
		if below > 0 && positives > 0 {
			auc, calibration = append(auc, pairs/float64(below*positives)), append(calibration, predicted/positives)
		}
	}
	for _, x := range []struct {
		name string
		of   []float64
	}{{"auc", auc}, {"calibration", calibration}} {
		if n := len(x.of); n >= replicates/2 {
			slices.Sort(x.of)
			q.Intervals = append(q.Intervals, Interval{x.name, x.of[n/40], x.of[n-1-n/40]})
		}
	}
}

// poisson draws a resampled weight for a weight of units.
func poisson(units int64, source rand.Source) float64 {
	if units == 0 {
		return 0
	}
	return distuv.Poisson{Lambda: float64(units) / One, Src: source}.Rand()
}

// SliceList holds the metrics by value of a field.
type SliceList struct {
	Field   string  `json:"field"`
	Values  int64   `json:"values"` // number of distinct values
	Missing int64   `json:"missing"`
	Share   float64 `json:"share"` // share of the values that were evaluated; below 1 with more than 2^24 samples
	Top     []Slice `json:"top"`   // values with the most samples
	Rest    Slice   `json:"rest"`  // all other values combined, without an AUC

	Intervals bool `json:"intervals,omitempty"` // Top holds all intervals of a numeric field, in order
}

// Slice holds the metrics of the samples with one value.
type Slice struct {
	Key         uint64   `json:"-"` // hash of the value
	Value       string   `json:"value"`
	Samples     int64    `json:"samples"`
	Positives   int64    `json:"positives"`
	AUC         *float64 `json:"auc"` // null if all samples are of one class
	LogLoss     float64  `json:"logloss"`
	BaseRate    float64  `json:"base_rate"`
	Calibration *float64 `json:"calibration"` // null without positives
}

// MaxSlices is the number of values of a field that are listed.
const MaxSlices = 20

// sliceSums holds the sums from which a Slice is computed.
type sliceSums struct {
	key                uint64
	samples, positives int64
	weight, positive   int64 // units
	loss, prediction   sum
	auc                float64 // NaN: none
}

const sliceWords = 10

func (s *sliceSums) words() []int64 {
	return []int64{int64(s.key), s.samples, s.positives, s.weight, s.positive, s.loss.whole, s.loss.part, s.prediction.whole, s.prediction.part, int64(math.Float64bits(s.auc))}
}

func sliceFrom(w []int64) sliceSums {
	return sliceSums{uint64(w[0]), w[1], w[2], w[3], w[4], sum{w[5], w[6]}, sum{w[7], w[8]}, math.Float64frombits(uint64(w[9]))}
}

func (s *sliceSums) slice() Slice {
	x := Slice{Key: s.key, Samples: s.samples, Positives: s.positives}
	if s.weight > 0 {
		weight := float64(s.weight) / One
		x.LogLoss, x.BaseRate = s.loss.value()/weight, float64(s.positive)/float64(s.weight)
		if s.positive > 0 {
			calibration := s.prediction.value() / weight / x.BaseRate
			x.Calibration = &calibration
		}
	}
	if !math.IsNaN(s.auc) {
		x.AUC = &s.auc
	}
	return x
}

// sumsOf returns the sums of the samples of one group, in the order of their logits.
func sumsOf(samples []grouped) sliceSums {
	s := sliceSums{key: samples[0].group, samples: int64(len(samples)), auc: math.NaN()}
	for _, x := range samples {
		class, units := int(x.place&1), int64(x.units)
		w := float64(units) / One
		loss, prediction := lossOf(float64(unordered(uint32(x.place>>1))), class)
		s.loss.add(w * loss)
		s.prediction.add(w * prediction)
		s.positives += int64(class)
		s.weight += units
		s.positive += units * int64(class)
	}
	if auc, units := groupAUC(samples); units > 0 {
		s.auc = auc
	}
	return s
}

// plus adds the sums of two slices, without their AUC.
func (s sliceSums) plus(o sliceSums) sliceSums {
	return sliceSums{0, s.samples + o.samples, s.positives + o.positives, s.weight + o.weight, s.positive + o.positive,
		sum{s.loss.whole + o.loss.whole, s.loss.part + o.loss.part}, sum{s.prediction.whole + o.prediction.whole, s.prediction.part + o.prediction.part}, math.NaN()}
}

// Slices returns the metrics of the groups with the most samples, the same on each rank. Like
// Reduce, it consumes the samples.
func (g *Groups) Slices(c *collective.Comm) (SliceList, error) {
	own, err := g.exchange(c)
	if err != nil {
		return SliceList{}, err
	}
	slices.SortFunc(own, compareGrouped)
	var mine []sliceSums
	rest := sliceSums{}
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n].group == own[0].group {
			n++
		}
		mine, own = append(mine, sumsOf(own[:n])), own[n:]
	}
	values := int64(len(mine))
	slices.SortFunc(mine, largestFirst)
	send := make([]int64, MaxSlices*sliceWords*c.Size())
	for i, s := range mine {
		if i < MaxSlices {
			copy(send[(MaxSlices*c.Rank()+i)*sliceWords:], s.words())
		} else {
			rest = rest.plus(s)
		}
	}
	if err := collective.AllReduce(c, send, collective.Sum); err != nil {
		return SliceList{}, err
	}
	sums := append(rest.words()[:sliceWords-1], values, g.missing)
	if err := collective.AllReduce(c, sums, collective.Sum); err != nil {
		return SliceList{}, err
	}
	var all []sliceSums
	for i := 0; i < len(send); i += sliceWords {
		if s := sliceFrom(send[i:]); s.samples > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, largestFirst)
	list := SliceList{Values: sums[sliceWords-1], Missing: sums[sliceWords], Share: g.share, Top: []Slice{}}
	rest = sliceFrom(append(slices.Clone(sums[:sliceWords-1]), int64(math.Float64bits(math.NaN()))))
	for i, s := range all {
		if i < MaxSlices {
			list.Top = append(list.Top, s.slice())
		} else {
			rest = rest.plus(s)
		}
	}
	list.Rest = rest.slice()
	return list, nil
}

// largestFirst orders slices by samples.
func largestFirst(a, b sliceSums) int {
	return cmp.Or(cmp.Compare(b.samples, a.samples), cmp.Compare(a.key, b.key))
}
