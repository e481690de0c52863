//go:build amd64 && !noasm

package eight

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

func hash(words []uint64, flip uint64) {
	if !fast {
		hashPlain(words, flip)
		return
	}
	hashAVX512(&words[0], len(words), flip)
}
