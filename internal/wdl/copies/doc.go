// Package copies says who holds the copy of a rank's shards (Ring), and how a group
// that lost ranks continues from what the others hold (Recover). It is pure: no
// messages, no clock, no I/O.
package copies
