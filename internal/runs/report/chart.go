package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// curve is one line of a chart. X and Y have the same length; NaN is a gap.
type curve struct {
	Name  string
	Color int // color of the run
	X, Y  []float64
	Faint bool // drawn behind the others, not in the legend
	Dots  bool // mark the points, because there are few
	Rings bool // mark them with rings, not in the legend
	Best  int  // 1 + index of the point of the best model; 0: none
}

// Size of a chart, in its own units.
const (
	chartWidth, chartHeight       = 560, 260
	left, right, top, bottom      = 78, 14, 12, 40
	plotWidth                     = chartWidth - left - right
	plotHeight                    = chartHeight - top - bottom
	colors                        = 8   // in the style of the page
	maxPoints                     = 600 // per curve
	ticksAcross, ticksUp, longest = 6, 5, 40
)

// chart draws curves, or nothing if all finite points have the same x.
func chart(title, xName, yName string, curves []curve) template.HTML {
	x, y := empty(), empty()
	for _, c := range curves {
		for i := range c.X {
			if finite(c.X[i]) && finite(c.Y[i]) {
				x.add(c.X[i])
				y.add(c.Y[i])
			}
		}
	}
	if x.lo >= x.hi {
		return ""
	}
	xTicks, yTicks := x.ticks(ticksAcross), y.widen().ticks(ticksUp)
	y.add(yTicks[0])
	y.add(yTicks[len(yTicks)-1])
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		html.EscapeString(title), chartWidth, chartHeight, html.EscapeString(title))
	for _, v := range yTicks {
		at := y.place(v, top+plotHeight, top)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, left+plotWidth, at, at, left-6, at+4, label(v))
	}
	for _, v := range xTicks {
		at := x.place(v, left, left+plotWidth)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			at, at, top+plotHeight, top+plotHeight+4, at, top+plotHeight+17, label(v))
	}
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="%d" text-anchor="middle">%s</text>`, left+plotWidth/2, chartHeight-6, html.EscapeString(xName))
	fmt.Fprintf(&b, `<text class="axis" transform="translate(12 %d) rotate(-90)" text-anchor="middle">%s</text>`, top+plotHeight/2, html.EscapeString(yName))
	for _, c := range curves {
		c.draw(&b, x, y)
	}
	b.WriteString("</svg>")
	legend(&b, curves)
	b.WriteString("</figure>")
	return template.HTML(b.String())
}

// draw draws the parts of a curve between its gaps.
func (c *curve) draw(b *strings.Builder, x, y extent) {
	class := fmt.Sprintf("line c%d", c.Color%colors)
	if c.Color/colors%2 == 1 {
		class += " dashed"
	}
	if c.Faint {
		class += " faint"
	}
	if c.Rings {
		class += " rings"
	}
	fmt.Fprintf(b, `<g class="%s"><title>%s</title>`, class, html.EscapeString(shortened(c.Name)))
	stride := max(1, (len(c.X)+maxPoints-1)/maxPoints)
	open := false
	for i := 0; i < len(c.X); i++ {
		if i%stride != 0 && i != len(c.X)-1 {
			continue
		}
		if !finite(c.X[i]) || !finite(c.Y[i]) {
			if open {
				b.WriteString(`"/>`)
			}
			open = false
			continue
		}
		px, py := x.place(c.X[i], left, left+plotWidth), y.place(c.Y[i], top+plotHeight, top)
		if !open {
			b.WriteString(`<path d="M`)
			open = true
		} else {
			b.WriteByte('L')
		}
		fmt.Fprintf(b, "%.1f %.1f", px, py)
	}
	if open {
		b.WriteString(`"/>`)
	}
	for i := range c.X {
		if (c.Dots || c.Rings) && len(c.X) <= maxPoints && finite(c.X[i]) && finite(c.Y[i]) {
			radius, what := 3, ""
			if i+1 == c.Best {
				radius, what = 6, ", the best one"
			}
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%d"><title>%s: %s at %s%s</title></circle>`, x.place(c.X[i], left, left+plotWidth),
				y.place(c.Y[i], top+plotHeight, top), radius, html.EscapeString(shortened(c.Name)), exact(c.Y[i]), exact(c.X[i]), what)
		}
	}
	b.WriteString("</g>")
}

func legend(b *strings.Builder, curves []curve) {
	shown := 0
	for _, c := range curves {
		if !c.Faint && !c.Rings {
			shown++
		}
	}
	if shown < 2 {
		return
	}
	b.WriteString(`<div class="legend">`)
	for _, c := range curves {
		if c.Faint || c.Rings {
			continue
		}
		dashed := ""
		if c.Color/colors%2 == 1 {
			dashed = " dashed"
		}
		fmt.Fprintf(b, `<span><svg viewBox="0 0 22 6" class="key"><path class="line c%d%s" d="M0 3L22 3"/></svg>%s</span>`, c.Color%colors, dashed, html.EscapeString(shortened(c.Name)))
	}
	b.WriteString("</div>")
}

// shortened cuts a long name.
func shortened(name string) string {
	if r := []rune(name); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return name
}

// extent is the range of an axis.
type extent struct{ lo, hi float64 }

func empty() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(v float64) { e.lo, e.hi = math.Min(e.lo, v), math.Max(e.hi, v) }

// widen extends a range of a single value.
func (e *extent) widen() *extent {
	if e.lo == e.hi {
		d := math.Max(math.Abs(float64(e.lo*0.01)), 1e-6)
		e.lo, e.hi = e.lo-d, e.hi+d
	}
	return e
}

// place maps a value to the page.
func (e extent) place(v, from, to float64) float64 {
	share := v/2 - e.lo/2 // half of each, because the difference may overflow
	share /= e.hi/2 - e.lo/2
	return from + float64(share*(to-from))
}

// ticks returns about n round values in the range, at least two.
func (e extent) ticks(n int) []float64 {
	span := e.hi - e.lo
	if !finite(span) || span <= 0 {
		return []float64{e.lo, e.hi}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if span/float64(step*f) <= float64(n) {
			step = float64(step * f)
			break
		}
	}
	var all []float64
	for v := float64(math.Ceil(e.lo/step) * step); v <= e.hi+float64(step*1e-9) && len(all) <= 4*n; v += step {
		all = append(all, v)
	}
	if len(all) < 2 || !finite(step) || step <= 0 {
		return []float64{e.lo, e.hi}
	}
	return all
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// label formats the value of a tick.
func label(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.of {
			return strconv.FormatFloat(round(v/u.of), 'g', 6, 64) + u.name
		}
	}
	return strconv.FormatFloat(round(v), 'g', 6, 64)
}

// round removes rounding errors of added ticks.
func round(v float64) float64 { return math.Round(float64(v*1e9)) / 1e9 }

func exact(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// smooth returns the mean of the last n values at each point, ignoring gaps.
func smooth(y []float64, n int) []float64 {
	all := make([]float64, len(y))
	for i := range y {
		sum, count := 0.0, 0
		for _, v := range y[max(0, i-n+1) : i+1] {
			if finite(v) {
				sum, count = sum+v, count+1
			}
		}
		all[i] = math.NaN()
		if count > 0 && finite(y[i]) {
			all[i] = sum / float64(count)
		}
	}
	return all
}

// decimals formats a number with four decimals, or a dash.
func decimals(x *float64) string {
	if x == nil || !finite(*x) {
		return "–"
	}
	return strconv.FormatFloat(*x, 'f', 4, 64)
}

func clipped(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
