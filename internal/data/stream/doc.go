// Package stream decides what of a stream is read next: of folders that grow,
// and of the partitions of a topic.
//
// A stream is cut into spans: a span is a finite set of names (files, or ranges
// of offsets of partitions) that were there at one look. Within a span everything
// is as with data that does not grow: all ranks scan it, shuffle it and resume in
// it by one integer. So the only new thing to agree on is what the next span is,
// and that is what this package decides, from what one rank saw and from the
// Position, which goes into checkpoints:
//
//	look ──Folders.Next──► Verdict: wait, a span, or the end
//	look ──Topic.Next────► Verdict
//
// It has no clock and does no I/O, except that it asks its caller for a digest of a
// file (Rules.Probe); its tests are conversations in text.
//
// # Folders
//
// Files are taken in the order of their names. Names that begin with . or _ or
// end in .part, .tmp or ._COPYING_ are no files yet. A file is taken when two
// looks in a row found it with the same size and time, or when its folder has
// its end mark; one that is not so far yet holds back those that sort behind it.
// Empty files are passed over. If a file grows after it was taken, a later span reads
// the new bytes; other changes are reported. A file that comes and sorts before one that was
// taken is an error that names both: to pass over it silently would lose it.
// While the same process watches, every such file is found; after a resume those
// are not told apart from files that were taken and then removed, unless there
// are more than were taken.
//
// # Topics
//
// Every partition has an offset from which it is read on. A span takes of each
// partition what it holds beyond, up to a bound. What a broker has deleted before
// it was read is an error: it is lost, and nobody else would tell.
package stream
