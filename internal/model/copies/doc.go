// Package copies decides which rank holds a copy of another rank's shards (Ring), and how
// a group that lost ranks continues with the state of the others (Recover). It is pure: it
// has no messages, no clock and no I/O.
package copies
