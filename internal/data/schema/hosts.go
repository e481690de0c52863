package schema

import "slices"

// hosting lists the values of Source.Hosts, the default first.
var hosting = [...]string{"shared", "each"}

// Hosting returns the values of Source.Hosts, the default first.
func Hosting() []string { return slices.Clone(hosting[:]) }

// EachHost reports whether every host of a job has local files of its own.
func (s Source) EachHost() bool { return s.Hosts == hosting[1] }
