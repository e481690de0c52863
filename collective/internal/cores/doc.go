// Package cores says on which core of this host a thread runs, on how many some
// processes may run, and moves a thread away from a core that it shares. Systems
// other than Linux know no core of a thread, and move none.
package cores
