//go:build !amd64 || noasm

package eight

func hash(words []uint64, flip uint64) { hashPlain(words, flip) }
