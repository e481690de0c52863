// Package serve measures the latency of a server of TensorFlow Serving's Predict call in an
// open loop: requests are sent when they are due, whether or not earlier ones were
// answered, so a slow answer delays no other request.
//
// The latency of a request counts from when it was due, not from when it was sent. What
// the sender itself adds is reported as its lateness. An echo server, which answers with as
// many bytes and computes nothing, is measured by turns with the target. It is the floor
// of what a server can reach on the same machine.
//
// Latencies are kept in HDR histograms, with an error of at most 0.1 %.
package serve
