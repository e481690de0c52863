package control

import (
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/control/controlpb"
)

// cut bounds a text and makes it valid for the wire.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

func text(s string) string { return cut(s, maxText) }

func statusToWire(s rank.Status) *controlpb.Status {
	return &controlpb.Status{
		Step: s.Step, Steps: s.Steps, Epoch: s.Epoch, Epochs: s.Epochs, Span: s.Span,
		Phase: text(s.Phase), Waits: s.Waits, Position: text(s.Position), Progress: s.Progress,
		Samples: s.Samples, SamplesPerSecond: s.SamplesPerSecond, Loss: s.Loss, RunDir: text(s.RunDir),
	}
}

func statusFromWire(s *controlpb.Status) rank.Status {
	return rank.Status{
		Step: s.GetStep(), Steps: s.GetSteps(), Epoch: s.GetEpoch(), Epochs: s.GetEpochs(), Span: s.GetSpan(),
		Phase: text(s.GetPhase()), Waits: s.GetWaits(), Position: text(s.GetPosition()), Progress: s.GetProgress(),
		Samples: s.GetSamples(), SamplesPerSecond: s.GetSamplesPerSecond(), Loss: s.GetLoss(), RunDir: text(s.GetRunDir()),
	}
}

func memberToWire(m rank.Member) *controlpb.Member {
	return &controlpb.Member{
		Rank: int64(m.Rank), Size: int64(m.Size), Generation: int64(m.Generation),
		Version: text(m.Version), Host: text(m.Host), Pid: int64(m.Pid), Address: text(m.Addr),
	}
}

func memberFromWire(m *controlpb.Member) rank.Member {
	return rank.Member{
		Rank: int(m.GetRank()), Size: int(m.GetSize()), Generation: int(m.GetGeneration()),
		Version: text(m.GetVersion()), Host: text(m.GetHost()), Pid: int(m.GetPid()), Addr: text(m.GetAddress()),
	}
}

func rosterToWire(members []rank.Member) *controlpb.Roster {
	r := &controlpb.Roster{Members: make([]*controlpb.Member, len(members))}
	for i, m := range members {
		m.Version = "" // the same for all
		r.Members[i] = memberToWire(m)
	}
	return r
}

func rosterFromWire(r *controlpb.Roster) []rank.Member {
	members := make([]rank.Member, len(r.GetMembers()))
	for i, m := range r.GetMembers() {
		members[i] = memberFromWire(m)
	}
	return members
}

func verdictToWire(v *rank.Verdict) *controlpb.Verdict {
	w := &controlpb.Verdict{
		Kind: string(v.Kind), Rank: int64(v.Rank), Host: text(v.Host), Pid: int64(v.Pid),
		Phase: text(v.Phase), Step: v.Step, Position: text(v.Position), Cause: cut(v.Cause, maxCause),
		Code: int64(v.Code), Signal: int64(v.Signal), QuietNs: int64(v.Quiet), Blaming: int64(v.Blaming), Folded: int64(v.Folded),
		Permanent: v.Permanent,
	}
	for _, o := range v.Others[:min(len(v.Others), rank.MaxOthers)] {
		w.Others = append(w.Others, text(o))
	}
	return w
}

func verdictFromWire(w *controlpb.Verdict) *rank.Verdict {
	v := &rank.Verdict{
		Kind: rank.Kind(text(w.GetKind())), Rank: int(w.GetRank()), Host: text(w.GetHost()), Pid: int(w.GetPid()),
		Phase: text(w.GetPhase()), Step: w.GetStep(), Position: text(w.GetPosition()), Cause: cut(w.GetCause(), maxCause),
		Code: int(w.GetCode()), Signal: int(w.GetSignal()), Quiet: time.Duration(w.GetQuietNs()), Blaming: int(w.GetBlaming()), Folded: int(w.GetFolded()),
		Permanent: w.GetPermanent(),
	}
	for _, o := range w.GetOthers()[:min(len(w.GetOthers()), rank.MaxOthers)] {
		v.Others = append(v.Others, text(o))
	}
	return v
}
