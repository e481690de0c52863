// Package versions manages the versions of models of a server.
//
//	BASE/7, BASE/8 …     a folder per version, named by its number
//	Policy               the versions to serve: the latest N, all, or a list
//	BASE/pins/LABEL      labels; their versions are served in addition to the policy's
//	Registry             loads these, switches, and unloads the others
//
// Each model has one goroutine that polls its folder, opens new versions and closes old
// ones, so requests never wait for a file. When a version is open, one pointer changes. A
// request holds the version that it acquired; an old version is closed when its last
// request has released it.
//
// A version that cannot be opened is reported, and tried again when its files change.
// Until then the policy chooses among the others, so the previous version keeps serving. A
// base folder without any version, or one that cannot be read, changes nothing.
package versions
