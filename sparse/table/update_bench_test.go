package table

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

var updateRules = []string{"adagrad", "rowwise_adagrad", "ftrl", "adam"}

// BenchmarkUpdate performs optimizer steps on rows that have been looked up, as after a pull,
// compared with a loop over the same records in one array. The sizes are 4,096 rows, which fit
// in a core's own cache, and -keys rows. The time includes the other work of a table in a step:
// it checks the gradients for values that are not finite, looks for rows to insert, and stamps
// the rows. The bound is changing one word in each line of the records, or the kernel on rows
// that stay in the first-level cache, whichever takes longer.
func BenchmarkUpdate(b *testing.B) {
	for _, rule := range updateRules {
		for _, n := range []int{4096, *benchKeys} {
			b.Run(fmt.Sprintf("%s/%d", rule, n), func(b *testing.B) { benchUpdate(b, n, *benchDim, rule) })
		}
	}
}

func benchUpdate(b *testing.B, n, dim int, rule string) {
	t := filled(b, n, dim, rule)
	defer t.Close()
	p := newPlain(b, n, dim, rule)
	defer p.free()
	sets := distinct(n)
	grads := make([]float32, len(sets[0])*dim)
	for i := range grads {
		grads[i] = float32(i%15-7) / 8
	}
	rows, all := make([][]Row, len(sets)), make([][]uint64, len(sets))
	for i, numbers := range sets {
		all[i] = make([]uint64, len(numbers))
		for j, number := range numbers {
			all[i][j] = number * f32.Golden
		}
		rows[i] = make([]Row, len(numbers))
		fatal.If(b, t.Find(all[i], rows[i]))
	}
	records := recordLines(n, 4*t.RecordLen(), sets)
	defer records.free()
	mine, others := int64(0), int64(0)
	many := benchBatch / len(sets[0]) // runs of each side per turn, so that the rows of small tables are in the cache
	again := func(f func()) func() {
		return func() {
			for range many {
				f()
			}
		}
	}
	compare(b, many*len(sets[0]), side{"", again(func() {
		i := mine % int64(len(sets))
		mine++
		if _, err := t.Apply(optim.Step{N: mine, Scale: 1, Rate: 1}, Gradients{Keys: all[i], Rows: rows[i], Epoch: t.Epoch(), Values: grads}); err != nil {
			b.Fatal(err)
		}
	})}, side{"loop", again(func() {
		i := others % int64(len(sets))
		others++
		p.update(others, sets[i], grads)
	})}, side{"lines", again(records.change)}, side{"arithmetic", arithmetic(dim, rule, many*len(sets[0]), grads)})
}

// arithmetic returns a function that performs n steps on 64 rows that stay in the first-level
// cache.
func arithmetic(dim int, rule string, n int, grads []float32) func() {
	const few = 64
	r := optim.Rule{Kind: rule}
	u, size := r.At(optim.Step{N: 1, Rate: 1}), dim+r.StateLen(dim)
	records, rows, marks := make([]float32, few*size), make([]optim.Record, few), make([]uint32, few)
	for i := range rows {
		rows[i] = optim.Record{At: &records[i*size], Mark: &marks[i]}
		r.InitState(records[i*size:i*size+dim], records[i*size+dim:(i+1)*size])
	}
	return func() {
		for at := 0; at < n; at += few {
			u.ApplyRows(0, rows, min(few, n-at), 1, optim.Part{Dim: dim, State: dim}, grads[:few*dim], dim)
		}
	}
}

// distinct returns sets of distinct numbers below n in random order. There is only one set if n
// is at most the size of a batch.
func distinct(n int) [][]uint64 {
	all, order := make([][]uint64, 1), rand.New(rand.NewPCG(5, 5)).Perm(n)
	if n > benchBatch {
		all = make([][]uint64, 16)
	}
	for i := range all {
		all[i] = make([]uint64, min(benchBatch, n))
		for j := range all[i] {
			all[i][j] = uint64(order[(i*len(all[i])+j)%n])
		}
	}
	return all
}

// plain is a simple implementation of one table of known size: records in an array, also in huge
// pages, and a loop for each rule.
type plain struct {
	dim     int
	rule    optim.Rule
	size    int // floats of a record
	records []float32
	free    func() error

	scale, l2, clip  float32 // of a gradient, as a table has them
	unbias1, unbias2 float64 // adam, of the current step
}

func newPlain(b testing.TB, n, dim int, rule string) *plain {
	r := optim.Rule{Kind: rule}.Default()
	p := &plain{dim: dim, rule: r, size: dim + r.StateLen(dim), scale: 1, clip: 1}
	words, free := newWords((4*n*p.size + 7) &^ 7)
	p.records, p.free = raw.Of[float32](raw.Bytes(words)), free
	t := filled(b, 0, dim, rule)
	defer t.Close()
	for i := range n {
		rec := p.records[i*p.size : (i+1)*p.size]
		t.Initial(uint64(i)*f32.Golden, rec[:dim])
		r.InitState(rec[:dim], rec[dim:])
	}
	return p
}

// update performs a step on the rows with the given numbers.
func (p *plain) update(step int64, numbers []uint64, grads []float32) {
	p.unbias1 = 1 / (1 - math.Pow(p.rule.Beta1, float64(step)))
	p.unbias2 = 1 / (1 - math.Pow(p.rule.Beta2, float64(step)))
	for i, number := range numbers {
		rec := p.records[int(number)*p.size:][:p.size]
		w, s, g := rec[:p.dim], rec[p.dim:], grads[i*p.dim:][:p.dim]
		switch p.rule.Kind {
		case "adagrad":
			p.adagrad(w, g, s)
		case "rowwise_adagrad":
			p.rowwise(w, g, s)
		case "adam":
			p.adam(w, g, s)
		case "ftrl":
			p.ftrl(w, g, s)
		}
	}
}

func (p *plain) gradient(g, w float32) float32 {
	return float32(p.clip * (float32(p.scale*g) + float32(p.l2*w)))
}

func (p *plain) adagrad(w, g, a []float32) {
	rate, epsilon := float32(p.rule.LearningRate), float32(p.rule.Epsilon)
	for i := range g {
		x := p.gradient(g[i], w[i])
		a[i] += float32(x * x)
		w[i] -= rate * x / (sqrt(a[i]) + epsilon)
	}
}

func (p *plain) rowwise(w, g, a []float32) {
	sum := float32(0)
	for i := range g {
		x := p.gradient(g[i], w[i])
		sum += float32(x * x)
	}
	a[0] += sum / float32(len(g))
	rate := float32(p.rule.LearningRate) / (sqrt(a[0]) + float32(p.rule.Epsilon))
	for i := range g {
		w[i] -= float32(rate * p.gradient(g[i], w[i]))
	}
}

func (p *plain) adam(w, g, s []float32) {
	r, m, v := p.rule, s[:len(w)], s[len(w):]
	beta1, beta2, epsilon := float32(r.Beta1), float32(r.Beta2), float32(r.Epsilon)
	rate, unbias := float32(r.LearningRate*p.unbias1), float32(p.unbias2)
	for i := range g {
		x := p.gradient(g[i], w[i])
		m[i] = float32(beta1*m[i]) + float32((1-beta1)*x)
		v[i] = float32(beta2*v[i]) + float32((1-beta2)*x*x)
		w[i] -= rate * m[i] / (sqrt(v[i]*unbias) + epsilon)
	}
}

func (p *plain) ftrl(w, g, s []float32) {
	z, n := s[:len(w)], s[len(w):]
	alpha, beta, l1, l2 := float32(p.rule.LearningRate), float32(p.rule.Beta), float32(p.rule.L1), float32(p.rule.L2)
	for i := range g {
		x := p.gradient(g[i], w[i])
		next := n[i] + float32(x*x)
		z[i] += x - float32((sqrt(next)-sqrt(n[i]))/alpha*w[i])
		n[i] = next
		switch {
		case z[i] > l1:
			w[i] = (l1 - z[i]) / ((beta+sqrt(next))/alpha + l2)
		case z[i] < -l1:
			w[i] = (-l1 - z[i]) / ((beta+sqrt(next))/alpha + l2)
		default:
			w[i] = 0
		}
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// TestLoopsAreTheRules compares the results of the plain loops with the rows of a table.
// Otherwise their times could not be compared.
func TestLoopsAreTheRules(t *testing.T) {
	const n, dim = 1 << 10, 5
	for _, rule := range updateRules {
		x, p := filled(t, n, dim, rule), newPlain(t, n, dim, rule)
		numbers := distinct(n)[0][:100]
		keys, grads := make([]uint64, len(numbers)), make([]float32, len(numbers)*dim)
		for i, number := range numbers {
			keys[i] = number * f32.Golden
		}
		for step := int64(1); step <= 3; step++ {
			for i := range grads {
				grads[i] = float32((int(step)*31+i*7)%15-7) / 8
			}
			if _, err := x.Apply(optim.Step{N: step, Scale: 1, Rate: 1}, Gradients{Keys: keys, Values: grads}); err != nil {
				t.Fatal(err)
			}
			p.update(step, numbers, grads)
		}
		record := make([]float32, x.RecordLen())
		for i, key := range keys {
			if held, err := x.Get(key, record); !held || err != nil {
				t.Fatal(held, err)
			}
			for j, v := range p.records[int(numbers[i])*p.size:][:p.size] {
				if math.Abs(float64(v-record[j])) > 1e-6*(1+math.Abs(float64(v))) {
					t.Errorf("%s: key %d: float %d is %v in the table, %v with the loop", rule, key, j, record[j], v)
				}
			}
		}
		if err := errors.Join(x.Close(), p.free()); err != nil {
			t.Error(err)
		}
	}
}
