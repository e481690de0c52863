// Package report writes one HTML file about one run or several: the verdict first, then
// metrics, settings that differ, curves, where the time of each rank went, tables against
// the plan, and warnings with what to do. The file needs no network and no script.
//
// Curves are SVG that this package writes: gonum/plot would add 60 packages and 8 MB of
// fonts and image code to the binary, and draws with fixed colours, which do not follow a
// dark page. Text of runs is escaped by html/template, or by html.EscapeString in SVG. A
// number that is not finite is a gap of its curve.
package report
