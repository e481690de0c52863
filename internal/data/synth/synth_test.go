package synth

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// write writes rows of a profile.
func write(w io.Writer, profile string, start, rows int64) error {
	g, err := New(profile)
	if err != nil {
		return err
	}
	return g.Write(w, start, rows)
}

// The sums come from an independent implementation in NumPy.
func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		profile string
		rows    int64
		md5     string
	}{
		{"criteo", 1000, "2accb5916213fa95c2a123920f3dda71"},
		{"criteo", 20000, "8cb7fdfd0d842566f133208edea8a372"},
		{"meituan", 1000, "324a1a54d647c49438928c68004f9161"},
		{"meituan", 20000, "0d3271ed4255238b69303d2eaf8fe04d"},
	} {
		h := md5.New()
		fatal.If(t, write(h, tc.profile, 0, tc.rows))
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != tc.md5 {
			t.Errorf("%s, %d rows: md5 %s, want %s", tc.profile, tc.rows, got, tc.md5)
		}
	}
}

func TestFirstLine(t *testing.T) {
	var b bytes.Buffer
	fatal.If(t, write(&b, "criteo", 0, 1))
	want := "0\t1\t0\t7\t0\t5\t0\t44\t1\t19\t15\t14\t0\t12\t00000000\ta1e687fe\t8d251d39\t"
	if !strings.HasPrefix(b.String(), want) {
		t.Fatalf("%q does not start with %q", b.String(), want)
	}
}

func TestRowsDoNotDependOnHowTheyAreSplit(t *testing.T) {
	for _, profile := range Profiles() {
		g, err := New(profile)
		fatal.If(t, err)
		const start, rows = 1_000_000, 3000
		var whole, pieces bytes.Buffer
		fatal.If(t, g.Write(&whole, start, rows))
		for n := int64(0); n < rows; {
			k := min(rand.Int64N(700), rows-n)
			fatal.If(t, g.Write(&pieces, start+n, k))
			n += k
		}
		if !bytes.Equal(whole.Bytes(), pieces.Bytes()) {
			t.Errorf("%s: the pieces differ from the whole", profile)
		}
		columns := len(g.Header())
		for i, line := range strings.Split(strings.TrimSuffix(whole.String(), "\n"), "\n") {
			if n := strings.Count(line, "\t") + 1; n != columns {
				t.Fatalf("%s: row %d has %d columns, the header %d", profile, start+i, n, columns)
			}
			if _, label := g.Truth(start + int64(i)); label != (line[0] == '1') {
				t.Fatalf("%s: row %d: Truth and text differ in the label", profile, start+i)
			}
		}
	}
}

func TestHeader(t *testing.T) {
	for profile, want := range map[string]string{"criteo": "label I1 I13 C1 C26 40", "meituan": "label C1 C60 61"} {
		g, err := New(profile)
		fatal.If(t, err)
		h := g.Header()
		got := []string{h[0]}
		if g.dense > 0 {
			got = append(got, h[1], h[g.dense])
		}
		got = append(got, h[1+g.dense], h[len(h)-1], fmt.Sprint(len(h)))
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", profile, s, want)
		}
	}
}

func TestClickTable(t *testing.T) {
	sum := uint64(0)
	for _, p := range clicks() {
		sum += p
	}
	if sum != 1<<41 {
		t.Fatalf("the table sums to %d, want 2^41", sum)
	}
}

// TestBayes compares the quality of the true probability with the results for a million
// rows: rate, AUC and log-loss of the test rows.
func TestBayes(t *testing.T) {
	for _, tc := range []struct {
		profile            string
		start              int64
		rate, auc, logloss float64
	}{
		{"criteo", 1_000_000, .3288, .7810, .5163},
		{"meituan", 400_000, .2949, .7884, .4886},
	} {
		g, err := New(tc.profile)
		fatal.If(t, err)
		rate, auc, logloss := bayes(g, tc.start, 20000)
		if math.Abs(rate-tc.rate) > .01 || math.Abs(auc-tc.auc) > .01 || math.Abs(logloss-tc.logloss) > .01 {
			t.Errorf("%s: rate %.4f AUC %.4f log-loss %.4f, want about %.4f %.4f %.4f", tc.profile, rate, auc, logloss, tc.rate, tc.auc, tc.logloss)
		}
	}
}

// bayes returns the scores of the true probability over some rows.
func bayes(g *Generator, start, rows int64) (rate, auc, logloss float64) {
	level := map[float64]int{} // there are 1024 different probabilities
	for i, p := range g.click {
		level[float64(p)/(1<<32)] = i
	}
	var clicked, not [clickSteps]float64
	for n := start; n < start+rows; n++ {
		p, label := g.Truth(n)
		if label {
			clicked[level[p]]++
			logloss -= math.Log(p) / float64(rows)
		} else {
			not[level[p]]++
			logloss -= math.Log(1-p) / float64(rows)
		}
	}
	var positives, negatives, below float64
	for i := range clicked {
		below += clicked[i] * (negatives + not[i]/2)
		positives += clicked[i]
		negatives += not[i]
	}
	return positives / float64(rows), below / (positives * negatives), logloss
}

func TestHexIsWhatPrintfMakes(t *testing.T) {
	for i := range 20000 {
		v := rand.Uint32() >> (i % 33)
		if got, want := string(appendHex(nil, v)), fmt.Sprintf("%08x", v); got != want {
			t.Fatalf("%d is %s, want %s", v, got, want)
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestErrors(t *testing.T) {
	if _, err := New("avazu"); err == nil || !strings.Contains(err.Error(), "criteo, meituan") {
		t.Error(err)
	}
	for _, bad := range [][2]int64{{-1, 1}, {0, -1}, {MaxRow, 1}, {1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}} {
		if err := write(io.Discard, "criteo", bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), "rows 0 to 36028797018963967") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	var b bytes.Buffer
	if err := write(&b, "criteo", MaxRow-1, 1); err != nil || b.Len() == 0 {
		t.Error(err)
	}
	if err := write(nil, "criteo", 5, 0); err != nil {
		t.Error(err)
	}
	if err := write(&failing{100_000}, "criteo", 0, 10_000); !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "near row") {
		t.Error(err)
	}
}

func TestRowsAllocateNothing(t *testing.T) {
	for _, profile := range Profiles() {
		g, err := New(profile)
		fatal.If(t, err)
		allocs := func(rows int64) float64 {
			return testing.AllocsPerRun(5, func() {
				fatal.If(t, g.Write(io.Discard, 0, rows))
			})
		}
		if few, many := allocs(1), allocs(2000); many > few {
			t.Errorf("%s: %v allocations for 2000 rows, %v for one", profile, many, few)
		}
	}
}

// TestDrift: the first day is as without drift; later, a twentieth of the values is new each day, and
// fields with few values stay.
func TestDrift(t *testing.T) {
	const day, few, many = 20_000, 100, 500
	g, plain := Shaped([]int{few, many}, 0), Shaped([]int{few, many}, 0)
	g.Drift(day)
	seen := [2]map[uint32]bool{{}, {}}
	for d := range int64(10) {
		var fresh [2]int
		for n := d * day; n < (d+1)*day; n++ {
			var r, was Row
			g.Draw(n, &r)
			plain.Draw(n, &was)
			for f := range 2 {
				v, _ := r.Token(f)
				if w, _ := was.Token(f); v != w && (d == 0 || f == 0) {
					t.Fatalf("row %d: value %d of field %d, without drift %d", n, v, f, w)
				}
				if !seen[f][v] {
					seen[f][v] = true
					fresh[f]++
				}
			}
		}
		if d > 0 && (fresh[0] > 0 || fresh[1] < many/40 || fresh[1] > many/8) {
			t.Errorf("day %d has %v new values", d, fresh)
		}
	}
}
