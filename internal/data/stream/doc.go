// Package stream decides which part of a stream is read next. A stream is a folder that grows,
// or the partitions of a topic.
//
// A stream is cut into spans. A span is a finite set of names (files, or ranges of offsets)
// that one look has found. All ranks scan it, shuffle it and resume in it as in data that does
// not grow. The ranks therefore only have to agree on the next span. One rank looks, and this
// package decides from its findings and from the Position, which is saved in checkpoints:
//
//	look ──Folders.Next──► Verdict: wait, a span, or the end
//	look ──Topic.Next────► Verdict
//
// The package has no clock and does no I/O, except that it asks its caller for the digest of
// a file (Rules.Probe). Its tests are conversations in text.
//
// # Folders
//
// Files are taken in the order of their names. Names that begin with . or _, or that end in
// .part, .tmp or ._COPYING_, are ignored. A file is complete when two consecutive looks found
// it with the same size and time, or when its folder has its end mark. An incomplete file
// holds back the files that sort after it. Empty files are skipped. If a file grows after it
// was taken, a later span reads the new bytes. Other changes are reported.
//
// A new file that sorts before one already taken is an error that names both, because it
// would never be read. The process that watches the folder finds every such file. After a
// resume, such files look like files that were taken and then removed, unless there are more
// than were taken.
//
// # Topics
//
// Every partition has an offset at which reading continues. A span contains the records of each
// partition from there, up to a bound. Where reading begins is decided once, when the topic is first
// seen; partitions that are added later are read from their beginning. A position belongs to the
// topic with its id: if the topic is deleted and another is created under its name, the offsets
// mean nothing. This, records that a broker deleted before they were read, and a log that ends
// before the position are errors, because records are lost, or reports with Rules.Skip.
package stream
