package live

import (
	"encoding/json"
	"math"
	"time"

	"github.com/wdlrun/wdlrun/trace"
)

// cursor identifies what a browser has received.
type cursor struct {
	seq    int64 // of points and lines
	merged int64
	update int64
	begun  bool
}

// number is a float64 that is null in JSON if it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// message is sent to a browser: first everything, then only what is new. Times are
// milliseconds since 1970.
type message struct {
	All         bool           `json:"all,omitempty"` // it replaces what the browser has
	Run         *runMessage    `json:"run,omitempty"`
	Status      statusMessage  `json:"status"`
	Train       [][5]number    `json:"train,omitempty"` // time, step, loss, samples/s, rate
	Valid       [][5]number    `json:"valid,omitempty"` // time, step, log-loss, AUC, 1: test data
	Log         []logMessage   `json:"log,omitempty"`
	Ranks       *ranksMessage  `json:"ranks,omitempty"`
	Checkpoints []int64        `json:"checkpoints"`
	Guard       *string        `json:"guard,omitempty"` // why no version is published, "" if versions are; absent: no guard
	End         *verdictOfPage `json:"end,omitempty"`
}

type runMessage struct {
	Version string   `json:"version"`
	Hosts   []string `json:"hosts"`
	Phases  []string `json:"phases"` // of a step
	Began   int64    `json:"began"`
}

type statusMessage struct {
	Step    int64  `json:"step"`
	Steps   int64  `json:"steps"`
	Epoch   int64  `json:"epoch"`
	Epochs  int64  `json:"epochs"`
	Span    int64  `json:"span"`
	Phase   string `json:"phase"`
	Samples int64  `json:"samples"`
	Speed   number `json:"speed"`
	Loss    number `json:"loss"`
	Left    number `json:"left"` // seconds of steps, null: not known
	Most    bool   `json:"most"` // early stopping may end the training before
	Dir     string `json:"dir"`
	Time    int64  `json:"time"`
}

type logMessage struct {
	Time    int64  `json:"t"`
	Warning bool   `json:"warning,omitempty"`
	Text    string `json:"text"`
}

// ranksMessage has the seconds of each phase of a step, by rank: since the job began, and
// in the last updates.
type ranksMessage struct {
	Total  [][]number     `json:"total"`
	Recent [][]number     `json:"recent"`
	Slow   []slowMessage  `json:"slow"`           // now
	Last   []slowMessage  `json:"last,omitempty"` // when a rank was slow for the last time
	LastAt int64          `json:"last_at,omitempty"`
	Tables []tableMessage `json:"tables"`
	Bad    int64          `json:"bad"`
}

type slowMessage struct {
	Rank   int    `json:"rank"`
	Cause  string `json:"cause"`
	Factor number `json:"factor"`

	Probable bool `json:"probable,omitempty"`
}

type tableMessage struct {
	Name    string `json:"name"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
	Evicted int64  `json:"evicted"`
	Sent    int64  `json:"sent"`
}

type verdictOfPage struct {
	Good bool   `json:"good"`
	Text string `json:"text"`
}

// phases are the phases of a step, in order.
var phases = [...]trace.Phase{trace.Input, trace.Pull, trace.Compute, trace.Push, trace.Sync, trace.Update}

// since returns what is new for a browser with this cursor, and its next cursor.
func (b *Board) since(at cursor) (message, cursor) {
	status := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	m := message{Checkpoints: b.checkpoints, Status: statusMessage{
		Step: status.Step, Steps: status.Steps, Epoch: status.Epoch, Epochs: status.Epochs, Span: status.Span, Phase: status.Phase, Samples: status.Samples,
		Most: status.MayEnd, Speed: number(status.SamplesPerSecond), Loss: number(status.Loss), Left: number(b.left(status.Step, status.Steps)), Dir: status.RunDir, Time: time.Now().UnixMilli(),
	}}
	if !at.begun || at.merged != b.merged {
		at = cursor{}
		m.All = true
		m.Run = &runMessage{Version: b.info.Version, Hosts: b.info.Hosts, Began: b.made.UnixMilli()}
		for _, p := range phases {
			m.Run.Phases = append(m.Run.Phases, p.String())
		}
	}
	for _, p := range b.train.Points() {
		if p.seq > at.seq {
			m.Train = append(m.Train, [5]number{number(p.at.UnixMilli()), number(p.step), number(p.loss), number(p.speed), number(p.rate)})
		}
	}
	for _, p := range b.valid.Points() {
		if p.seq > at.seq {
			test := number(0)
			if p.test {
				test = 1
			}
			m.Valid = append(m.Valid, [5]number{number(p.at.UnixMilli()), number(p.step), number(p.logloss), number(p.auc), test})
		}
	}
	for _, l := range b.log[max(0, len(b.log)-maxLines):] {
		if l.seq > at.seq {
			m.Log = append(m.Log, logMessage{l.at.UnixMilli(), l.warning, l.text})
		}
	}
	if b.updates != at.update {
		m.Ranks = b.split()
	}
	if g := b.versions.guard; g != nil {
		m.Guard = &g.why
	}
	if b.ended != nil {
		m.End = &verdictOfPage{b.ended.good, b.ended.text}
	}
	return m, cursor{seq: b.seq, merged: b.merged, update: b.updates, begun: true}
}

// left returns the estimated seconds of the remaining steps by the pace of recent ones, NaN if
// unknown.
func (b *Board) left(step, steps int64) float64 {
	rate := b.pace.Rate()
	if steps == 0 || rate == 0 {
		return math.NaN()
	}
	return float64(max(steps-step, 0)) / rate
}

// split returns the message about ranks and tables.
func (b *Board) split() *ranksMessage {
	m := &ranksMessage{Slow: []slowMessage{}, Tables: []tableMessage{}, Bad: b.update.Bad}
	before := b.history[b.updates%recent] // the oldest one kept
	for i, r := range b.update.Ranks {
		var total, late []number
		for _, p := range phases {
			d := r.Phases[p]
			total = append(total, number(d.Seconds()))
			if i < len(before) {
				d -= before[i].Phases[p]
			}
			late = append(late, number(d.Seconds()))
		}
		m.Total, m.Recent = append(m.Total, total), append(m.Recent, late)
	}
	for _, s := range b.update.Slow {
		m.Slow = append(m.Slow, slowMessage{s.Rank, s.Cause, number(s.Factor), s.Probable})
	}
	for _, s := range b.slow.ranks {
		m.Last, m.LastAt = append(m.Last, slowMessage{s.Rank, s.Cause, number(s.Factor), false}), b.slow.at.UnixMilli()
	}
	for _, t := range b.update.Tables {
		m.Tables = append(m.Tables, tableMessage{t.Name, t.Rows, t.Bytes, t.Evicted, t.Sent})
	}
	return m
}
