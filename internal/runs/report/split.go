package report

import (
	"fmt"
	"html"
	"html/template"
	"strings"

	"github.com/wdlrun/wdlrun/internal/runs/timeline"
)

// maxBars is the maximum number of ranks drawn.
const maxBars = 48

// split draws the step time of each rank: own work by phase, and waiting.
func split(a *timeline.Analysis) template.HTML {
	const bar, gap, names = 18, 6, 90
	rows := a.Ranks[:min(len(a.Ranks), maxBars)]
	if len(rows) == 0 || a.Steps == 0 {
		return ""
	}
	most := 0.0
	for _, r := range rows {
		most = max(most, r.Seconds)
	}
	var b strings.Builder
	height := len(rows) * (bar + gap)
	fmt.Fprintf(&b, `<figure class="wide"><figcaption>Time of training steps by rank</figcaption><div class="scroll"><svg viewBox="0 0 900 %d" role="img" aria-label="time of steps by rank">`, height)
	for i, r := range rows {
		y, x := i*(bar+gap), float64(names)
		fmt.Fprintf(&b, `<text class="tick" x="%d" y="%d" text-anchor="end">rank %d</text>`, names-8, y+13, r.Rank)
		part := func(name, class string, seconds float64) {
			w := float64(seconds / max(most, 1e-9) * (900 - names - 4))
			if w <= 0 {
				return
			}
			share := 100 * seconds / max(r.Seconds, 1e-9)
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>rank %d, %s: %.3g s, %.1f %%</title></rect>`, class, x, y, w, bar, r.Rank, html.EscapeString(name), seconds, share)
			if w > 70 {
				fmt.Fprintf(&b, `<text class="in" x="%.1f" y="%d">%s %.0f %%</text>`, x+5, y+13, html.EscapeString(name), share)
			}
			x += w
		}
		for k, p := range r.Phases {
			part(p.Phase, fmt.Sprintf("fill f%d", k), p.Own)
		}
		part("waiting", "fill waiting", r.Waited)
	}
	b.WriteString(`</svg></div><div class="legend">`)
	for k, p := range rows[0].Phases {
		fmt.Fprintf(&b, `<span><i class="f%d"></i>%s</span>`, k, html.EscapeString(p.Phase))
	}
	b.WriteString(`<span><i class="waiting"></i>waiting for later ranks</span></div></figure>`)
	return template.HTML(b.String())
}
