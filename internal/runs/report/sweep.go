package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Limits of the page of a sweep.
const (
	maxTrials = 500
	maxAxes   = 10
	maxFailed = 50
)

// sweepView is the data of the page for the template.
type sweepView struct {
	Title, Made, Metric string
	Epochs              int
	Verdict             []string
	Parallel            template.HTML
	Dashed              bool // some keys belong to some trials only
	Keys                []string
	Rows                [][]string
	More                int
	Failed              [][2]string // number and reason
	Effects             []effectView
}

type effectView struct {
	Key  string
	Rows [][]string
}

// WriteSweep writes the page about a sweep over a space. verdict are its first lines; now
// is the date on the page.
func WriteSweep(w io.Writer, name string, s *sweep.Sweep, space sweep.Space, verdict []string, now time.Time) error {
	v := sweepView{
		Title: titleStart + "sweep " + name, Made: now.Format("2006-01-02 15:04"), Metric: s.Options.Metric,
		Epochs: s.Options.Rungs()[0], Verdict: verdict, Parallel: parallel(s, space),
	}
	for _, p := range space {
		v.Dashed = v.Dashed || p.If != nil
		v.Keys = append(v.Keys, p.Key)
		e := effectView{Key: p.Key}
		for _, x := range s.Effects(p) {
			e.Rows = append(e.Rows, []string{x.Value, trialsOf(x), fmt.Sprintf("%.5f", x.Mean), fmt.Sprintf("%.5f", x.Best)})
		}
		if len(e.Rows) > 0 {
			v.Effects = append(v.Effects, e)
		}
	}
	all := s.Ranking()
	v.More = max(0, len(all)-maxTrials)
	for _, t := range all[:len(all)-v.More] {
		v.Rows = append(v.Rows, trialRow(s, t, v.Keys))
		if why := t.Error(); why != "" && len(v.Failed) < maxFailed {
			v.Failed = append(v.Failed, [2]string{fmt.Sprint(t.Number), why})
		}
	}
	return pages().ExecuteTemplate(w, "sweep.html", v)
}

// fewTrials is the number of trials below which a mean says little.
const fewTrials = 5

// trialsOf returns the number of trials of an effect, and whether they are few.
func trialsOf(x sweep.Effect) string {
	if x.Trials < fewTrials {
		return fmt.Sprintf("%d (few)", x.Trials)
	}
	return fmt.Sprint(x.Trials)
}

func trialRow(s *sweep.Sweep, t *sweep.Trial, keys []string) []string {
	row := []string{fmt.Sprint(t.Number), SweepState(s, t), "", "", "", ""}
	if peak := s.Peak(t); peak != nil {
		mean, deviation := sweep.Spread(sweep.Of(peak, s.Options.Metric, false))
		row[2], row[3] = sweep.EpochsOf(peak), fmt.Sprintf("%.5f", mean)
		if !math.IsNaN(deviation) {
			row[4] = fmt.Sprintf("%.5f", deviation)
		}
	}
	seconds := 0.0
	for _, x := range t.Outcomes {
		seconds += x.Seconds
	}
	row[5] = fmt.Sprintf("%.1f", seconds)
	for _, key := range keys {
		row = append(row, shortened(t.Value(key)))
	}
	return row
}

// SweepState describes the progress of a trial.
func SweepState(s *sweep.Sweep, t *sweep.Trial) string {
	rungs := s.Options.Rungs()
	last := len(rungs) - 1
	for last >= 0 && s.At(t, last) == nil {
		last--
	}
	switch {
	case t.Error() != "":
		return "failed"
	case len(t.Outcomes) == 0:
		return "not begun"
	case last < 0:
		return "not all seeds"
	case last < len(rungs)-1:
		return "ended after " + plural.Of(rungs[last], "epoch")
	}
	return "finished"
}

// axis is one axis of parallel coordinates.
type axis struct {
	name   string
	place  func(*sweep.Trial) float64 // 0 bottom, 1 top, NaN: the trial has no value
	labels [][2]any                   // place and text
}

// parallel draws a line for each trial across the axes of the keys and of the metric.
func parallel(s *sweep.Sweep, space sweep.Space) template.HTML {
	var trials []*sweep.Trial
	score := map[*sweep.Trial]float64{}
	values := empty()
	for _, t := range s.Trials {
		if first := s.At(t, 0); first != nil && len(trials) < maxTrials {
			score[t], _ = sweep.Spread(sweep.Of(first, s.Options.Metric, false))
			values.add(score[t])
			trials = append(trials, t)
		}
	}
	if len(trials) < 2 || values.lo == values.hi {
		return ""
	}
	var axes []axis
	for _, p := range space[:min(len(space), maxAxes)] {
		axes = append(axes, paramAxis(p))
	}
	axes = append(axes, axis{s.Options.Metric, func(t *sweep.Trial) float64 { return (score[t] - values.lo) / (values.hi - values.lo) },
		[][2]any{{0.0, fmt.Sprintf("%.4f", values.lo)}, {1.0, fmt.Sprintf("%.4f", values.hi)}}})
	slices.SortStableFunc(trials, func(a, b *sweep.Trial) int { // better ones are drawn on top
		if b.Number == s.Best {
			return -1
		}
		if a.Number == s.Best {
			return 1
		}
		if sweep.Falling(s.Options.Metric) {
			a, b = b, a
		}
		return cmp.Compare(score[a], score[b])
	})
	return drawParallel(s, trials, axes)
}

func drawParallel(s *sweep.Sweep, trials []*sweep.Trial, axes []axis) template.HTML {
	const height, up, down, width = 320, 34, 14, 960
	step := width / (len(axes) - 1)
	var b strings.Builder
	fmt.Fprintf(&b, `<figure class="wide"><svg viewBox="-110 0 %d %d" role="img" aria-label="parallel coordinates of the trials">`, width+190, height)
	for i, t := range trials {
		path, over := crossing(t, axes, func(k int, y float64) string {
			return fmt.Sprintf("%d %.1f", k*step, float64(up)+float64((1-y)*(height-up-down)))
		})
		color, wide := "c0", "1.3"
		opacity := .12 + float64(.7*float64(i)/float64(len(trials)))
		if t.Number == s.Best {
			color, wide, opacity = "c1", "4", 1
		}
		for _, p := range [][2]string{{color, path}, {color + " dashed", over}} {
			if p[1] != "" {
				fmt.Fprintf(&b, `<path class="line %s" d="%s" style="stroke-width:%s;opacity:%.2f"><title>trial %d</title></path>`, p[0], p[1], wide, opacity, t.Number)
			}
		}
	}
	for k, a := range axes {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%d" y2="%d"/><text class="axis" x="%d" y="14" text-anchor="middle">%s</text>`,
			k*step, k*step, up, height-down, k*step, html.EscapeString(lastPart(a.name)))
		x, anchor := k*step+5, "start"
		if k == 0 { // no line passes on this side
			x, anchor = -5, "end"
		}
		for _, l := range a.labels {
			fmt.Fprintf(&b, `<text class="tick" x="%d" y="%.1f" text-anchor="%s">%s</text>`, x, float64(up+4)+float64((1-l[0].(float64))*(height-up-down)), anchor, html.EscapeString(clipped(l[1].(string), 18)))
		}
	}
	b.WriteString("</svg></figure>")
	return template.HTML(b.String())
}

// crossing returns the path of a trial between neighbouring axes, and that over axes for which
// it has no value.
func crossing(t *sweep.Trial, axes []axis, at func(k int, y float64) string) (path, over string) {
	last, point := -1, "" // the axis and point before
	for k, a := range axes {
		y := a.place(t)
		if !finite(y) {
			continue
		}
		next := at(k, y)
		switch {
		case last == k-1 && last >= 0:
			path += "M" + point + "L" + next
		case last >= 0:
			over += "M" + point + "L" + next
		}
		last, point = k, next
	}
	return path, over
}

// lastPart returns the last parts of a key, enough to recognise it.
func lastPart(key string) string {
	parts := strings.Split(key, ".")
	if n := len(parts); n > 2 {
		return clipped(strings.Join(parts[n-2:], "."), 22)
	}
	return clipped(key, 22)
}

func paramAxis(p sweep.Param) axis {
	if !p.Numeric() {
		at := func(i int) float64 { return (float64(i) + .5) / float64(len(p.Values)) }
		a := axis{name: p.Key}
		for i, v := range p.Values {
			if len(p.Values) <= 16 {
				a.labels = append(a.labels, [2]any{at(i), v})
			}
		}
		a.place = func(t *sweep.Trial) float64 {
			if i := slices.Index(p.Values, t.Value(p.Key)); i >= 0 {
				return at(i)
			}
			return math.NaN()
		}
		return a
	}
	scale := func(x float64) float64 { return x }
	if p.Log() {
		scale = math.Log
	}
	low, high := scale(p.Low), scale(p.High)
	place := func(t *sweep.Trial) float64 {
		x, err := strconv.ParseFloat(t.Value(p.Key), 64)
		if err != nil {
			return math.NaN()
		}
		return min(1, max(0, (scale(x)-low)/(high-low)))
	}
	return axis{p.Key, place, [][2]any{{0.0, label(p.Low)}, {1.0, label(p.High)}}}
}
