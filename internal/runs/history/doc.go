// Package history serves a page about the runs of a folder: a table with conditions and an
// order, and curves and settings of the selected runs.
//
// The server sends only the rows that the browser requests, so that a folder of 10,000
// runs is a small page. It writes nothing except the index of package runs.
package history
