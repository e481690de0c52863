package control

import (
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
	"github.com/wdlrun/wdlrun/rank"
)

// cut limits the length of a text and makes it valid UTF-8.
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
		Samples: s.Samples, SamplesPerSecond: s.SamplesPerSecond, Loss: s.Loss, RunDir: text(s.RunDir), MayEnd: s.MayEnd,
	}
}

func statusFromWire(s *controlpb.Status) rank.Status {
	return rank.Status{
		Step: s.GetStep(), Steps: s.GetSteps(), Epoch: s.GetEpoch(), Epochs: s.GetEpochs(), Span: s.GetSpan(),
		Phase: text(s.GetPhase()), Waits: s.GetWaits(), Position: text(s.GetPosition()), Progress: s.GetProgress(),
		Samples: s.GetSamples(), SamplesPerSecond: s.GetSamplesPerSecond(), Loss: s.GetLoss(), RunDir: text(s.GetRunDir()), MayEnd: s.GetMayEnd(),
	}
}

func trafficToWire(t rank.Traffic) *controlpb.Traffic {
	w := &controlpb.Traffic{}
	for _, x := range t.Waits[:min(len(t.Waits), rank.MaxWaits)] {
		w.Waits = append(w.Waits, &controlpb.Wait{Peer: int64(x.Peer), Channel: int64(x.Channel), Sends: x.Sends, Message: x.Message, ForNs: int64(x.For)})
	}
	for _, x := range t.Begun[:min(len(t.Begun), rank.MaxBegun)] {
		w.Begun = append(w.Begun, &controlpb.Begun{Peer: int64(x.Peer), Channel: int64(x.Channel), Sent: x.Sent, Received: x.Received, QuietNs: int64(x.Quiet)})
	}
	for _, x := range t.Calls[:min(len(t.Calls), rank.MaxCalls)] {
		w.Calls = append(w.Calls, &controlpb.Call{Channel: int64(x.Channel), Part: x.Part, Seq: x.Seq, Hash: x.Hash, Name: cut(x.Name, maxName), Last: x.Last})
	}
	return w
}

func trafficFromWire(w *controlpb.Traffic) (t rank.Traffic) {
	for _, x := range w.GetWaits()[:min(len(w.GetWaits()), rank.MaxWaits)] {
		t.Waits = append(t.Waits, rank.Wait{Peer: int(x.GetPeer()), Channel: int(x.GetChannel()), Sends: x.GetSends(), Message: x.GetMessage(), For: time.Duration(x.GetForNs())})
	}
	for _, x := range w.GetBegun()[:min(len(w.GetBegun()), rank.MaxBegun)] {
		t.Begun = append(t.Begun, rank.Begun{Peer: int(x.GetPeer()), Channel: int(x.GetChannel()), Sent: x.GetSent(), Received: x.GetReceived(), Quiet: time.Duration(x.GetQuietNs())})
	}
	for _, x := range w.GetCalls()[:min(len(w.GetCalls()), rank.MaxCalls)] {
		t.Calls = append(t.Calls, rank.Call{Channel: int(x.GetChannel()), Part: x.GetPart(), Seq: x.GetSeq(), Hash: x.GetHash(), Name: cut(x.GetName(), maxName), Last: x.GetLast()})
	}
	return t
}

func memberToWire(m rank.Member) *controlpb.Member {
	return &controlpb.Member{
		Rank: int64(m.Rank), Size: int64(m.Size), Generation: int64(m.Generation),
		Version: text(m.Version), Host: text(m.Host), Pid: int64(m.Pid), Address: text(m.Addr), Note: text(m.Note),
	}
}

func memberFromWire(m *controlpb.Member) rank.Member {
	return rank.Member{
		Rank: int(m.GetRank()), Size: int(m.GetSize()), Generation: int(m.GetGeneration()),
		Version: text(m.GetVersion()), Host: text(m.GetHost()), Pid: int(m.GetPid()), Addr: text(m.GetAddress()), Note: text(m.GetNote()),
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
		Permanent: v.Permanent, Alone: v.Alone, Together: text(v.Together),
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
		Permanent: w.GetPermanent(), Alone: w.GetAlone(), Together: text(w.GetTogether()),
	}
	for _, o := range w.GetOthers()[:min(len(w.GetOthers()), rank.MaxOthers)] {
		v.Others = append(v.Others, text(o))
	}
	return v
}
