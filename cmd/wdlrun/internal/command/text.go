package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Called returns the words with which a proposed command begins, for a program that was
// called as arg: arg, or "wdlrun" if PATH finds it there. The binary that go run builds is
// deleted when it ends, so go run is proposed again.
func Called(arg string) string {
	const plain = "wdlrun"
	found, err := exec.LookPath(plain)
	switch {
	case strings.Contains(arg, "/go-build") && err != nil && IsDir("cmd/wdlrun"):
		return "go run ./cmd/wdlrun"
	case strings.Contains(arg, "/go-build"), err == nil && sameFile(found, arg):
		return plain
	}
	return Quoted(arg)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// QuotedPath returns a path as a word of a proposed command: quoted if a shell would change it,
// and prefixed with ./ if it looks like a flag.
func QuotedPath(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return Quoted(path)
}

// Quoted returns a word of a command line, quoted if a shell would change it.
func Quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// QuotedPaths returns several paths as words.
func QuotedPaths(paths []string) string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = QuotedPath(p)
	}
	return strings.Join(all, " ")
}

// Clean makes a string from a file safe for a terminal, and cuts it.
func Clean(text string, longest int) string {
	var b strings.Builder
	for i, r := range text {
		if i >= longest {
			return b.String() + "…"
		}
		if !strconv.IsPrint(r) {
			r = '\uFFFD'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func IsDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Aligned formats rows of cells as aligned columns.
func Aligned(rows [][]string) string {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// Flow returns a value of a setting.
func Flow(v any) string {
	b, _ := json.Marshal(v) // strings: cannot fail
	return string(b)
}

// Without returns the names that others do not have.
func Without(names, others []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(others, name) })
}

// WidestSetting is the width of a setting in a table.
const WidestSetting = 32
