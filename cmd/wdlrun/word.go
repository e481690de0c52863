package main

import (
	"os"
	"os/exec"
	"strings"
)

// called returns the words with which a proposed command begins, for a program that was
// called as arg: arg, or "wdlrun" if PATH finds it there. The binary that go run builds is
// deleted when it ends, so go run is proposed again.
func called(arg string) string {
	const plain = "wdlrun"
	found, err := exec.LookPath(plain)
	switch {
	case strings.Contains(arg, "/go-build") && err != nil && isDir("cmd/wdlrun"):
		return "go run ./cmd/wdlrun"
	case strings.Contains(arg, "/go-build"), err == nil && sameFile(found, arg):
		return plain
	}
	return quoted(arg)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// quotedPath returns a path as a word of a proposed command: quoted if a shell would change it,
// and prefixed with ./ if it looks like a flag.
func quotedPath(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return quoted(path)
}

// quoted returns a word of a command line, quoted if a shell would change it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// quotedPaths returns several paths as words.
func quotedPaths(paths []string) string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = quotedPath(p)
	}
	return strings.Join(all, " ")
}
