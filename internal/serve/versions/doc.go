// Package versions keeps the versions of models that a server answers with.
//
//	BASE/7, BASE/8 …     a folder per version, named by its number
//	Policy               which of them are wanted: the latest N, all, or some
//	Registry             loads what is wanted, switches, and unloads what is not
//
// Each model has one goroutine that polls its folder, opens new versions and closes old
// ones, so requests never wait for a file. When a version is open, one pointer changes. A
// request holds the version that it acquired; an old version is closed when its last
// request has released it.
//
// A version that cannot be opened is reported and tried again when its files change. Until
// then the policy chooses among the others, so the version before it keeps serving. A base
// folder without any version, or one that cannot be read, changes nothing.
package versions
