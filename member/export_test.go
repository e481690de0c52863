package member

import "github.com/wdlrun/wdlrun/rank"

// RunJoined is Run for a rank that has joined.
var RunJoined = (*Member).run

// TrafficOf returns a function that reports what the heartbeats of a rank report.
func TrafficOf(m *Member) func(begun bool) rank.Traffic { return newTraffic(m.Comm, m.links).report }
