// Package report writes one HTML file about one run or several: the verdict, metrics,
// settings that differ, curves, the time of each rank by phase, tables compared with the
// plan, and warnings with advice. The file needs no network and no script.
//
// Curves are SVG written by this package. gonum/plot would add 60 packages and 8 MB of
// fonts and image code to the binary, and its fixed colours do not follow a dark page.
// Text of runs is escaped by html/template, or by html.EscapeString in SVG. A number that
// is not finite is a gap of its curve.
package report
