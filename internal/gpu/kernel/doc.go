// Package kernel holds the kernels of a training step: their source in C,
// the PTX that clang makes of it, and the arguments of each as a Go structure.
package kernel

import _ "embed"

// Source is the C source, which a C compiler also compiles as the CPU's twins.
//
//go:embed src/kernels.c
var Source string

// PTX is what clang makes of Source for compute capability 7.5. Drivers compile it for the
// device at hand.
//
//go:embed src/kernels.ptx
var PTX string
