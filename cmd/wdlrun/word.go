package main

import "strings"

// word is a path as a word of the commands that we propose: in quotes where a shell would
// take it for something else, and from the folder on where a command would for a flag.
func word(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return quoted(path)
}

// quoted is a word of a command line, in quotes if a shell would change it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// words are several of them.
func words(paths []string) string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = word(p)
	}
	return strings.Join(all, " ")
}
