//go:build !linux

package member

import "github.com/wdlrun/wdlrun/rank"

// siblings are empty on systems without /proc: a stopped rank is left to its launcher.
type siblings struct{}

func newSiblings([]rank.Member, place, int) siblings { return siblings{} }

func (siblings) end(error) {}

func (siblings) release() {}
