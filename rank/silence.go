package rank

import "time"

// CoordinatorSilence is the silence of a coordinator in rank 0 after which the other ranks
// leave. They detect a failed host or network earlier.
const CoordinatorSilence = SilentAfter + 3*time.Second

const (
	// leaves is the shortest absence of the coordinator after which ranks may have left.
	// Their last contact may be a second old.
	leaves = CoordinatorSilence - time.Second
	// overGaps is the allowed silence of a rank as a multiple of the longest recent time
	// between its heartbeats. It is small enough that heartbeats of once per second, as in
	// large worlds, do not extend Silence.
	overGaps = 3
	// overSilence bounds the allowed silence, as a multiple of Silence.
	overSilence = 4
	// Each heartbeat keeps 7/8 of the longest recent time between heartbeats.
	gapKept, gapOf = 7, 8
)

// allowedSilence returns the allowed silence of a rank: normal, or longer if its heartbeats have
// come late before. It is longest until all ranks have joined, and shrinks with each heartbeat after
// that (startGap) or at the first step: many ranks that start on few CPUs delay one another.
func (s *rankState) allowedSilence(normal time.Duration, formed bool) time.Duration {
	longest := overSilence * normal
	if !formed {
		return longest
	}
	return max(normal, min(overGaps*s.gap, longest))
}

// startGap is what the longest time between heartbeats of a rank counts as when it begins to connect to
// the others.
func startGap(normal time.Duration) time.Duration { return overSilence * normal / overGaps }

// isSilent reports whether a rank is silent for too long, both by the clock and in the
// time for which the driver ran. A driver that is late receives heartbeats late.
func (s *rankState) isSilent(now, normal time.Duration, formed bool) bool {
	limit := s.allowedSilence(normal, formed)
	return !s.silent && now-s.beat > limit && s.runSilent > limit
}

// recordBeat records a heartbeat or report.
func (s *rankState) recordBeat(now time.Duration) {
	s.gap = max(s.runSilent, s.gap*gapKept/gapOf)
	s.beat, s.silent, s.runSilent = now, false, 0
}
