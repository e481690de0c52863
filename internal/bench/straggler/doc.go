// Package straggler measures what slow ranks cost: it runs the trainer's own steps on
// ranks that are slow deliberately, on real links (Measure) or on goroutines over a
// modelled network (Simulate), whose time is virtual in a testing/synctest bubble.
//
// Where Job.Compute is given, a microbatch takes that modelled time, in which its rank
// sleeps. All else takes what it takes.
package straggler
