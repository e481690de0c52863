package house

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var showCircles = flag.String("circles", "", "print what ties the files of this package together")

// TestFilesInCircles limits, by package, the number of files that use each other in a circle. A
// file outside of all circles can be read and changed with only the files that it uses in mind.
// circles.txt holds the limits: none may be raised, and a smaller count must be entered.
func TestFilesInCircles(t *testing.T) {
	t.Parallel()
	limits, sum := map[string]int{}, 0
	f, err := os.Open("circles.txt")
	fatal.If(t, err)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var dir string
		var n int
		if _, err := fmt.Sscan(in.Text(), &dir, &n); err != nil && !strings.HasPrefix(in.Text(), "#") {
			t.Fatalf("circles.txt: %q: %v", in.Text(), err)
		}
		if n > 0 {
			limits[dir] = n
		}
	}
	fset := token.NewFileSet()
	packages := map[string][]*ast.File{}
	for _, s := range sources(t) {
		if s.isTest() || s.isGenerated() {
			continue
		}
		f, err := parser.ParseFile(fset, path.Base(s.path), s.text, 0)
		fatal.If(t, err)
		packages[s.dir()] = append(packages[s.dir()], f)
	}
	for dir, files := range packages {
		arrows, n := fileUses(fset, files), 0
		for _, circle := range circlesOf(arrows) {
			n += len(circle)
			if *showCircles == dir {
				t.Log(arrows.describe(circle))
			}
		}
		switch sum += n; {
		case n > limits[dir]:
			t.Errorf("%s: %d files are in circles, at most %d are allowed; to see them: go test ./tests/house -run FilesInCircles -v -circles %s", dir, n, limits[dir], dir)
		case n < limits[dir]:
			t.Errorf("%s: %d files are in circles: lower its limit in circles.txt, which is %d", dir, n, limits[dir])
		}
		delete(limits, dir)
	}
	for dir := range limits {
		t.Errorf("circles.txt names %s, which has no files", dir)
	}
	t.Logf("%d files are in circles", sum)
}

// fileArrows holds, by file and by other file of its package, the names that the first uses and
// the second declares.
type fileArrows map[string]map[string][]string

func fileUses(fset *token.FileSet, files []*ast.File) fileArrows {
	arrows := fileArrows{}
	for id, x := range uses(fset, files) {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(x.Pos()).Filename
		if from == to || isLocal(x) {
			continue
		}
		if arrows[from] == nil {
			arrows[from] = map[string][]string{}
		}
		if !slices.Contains(arrows[from][to], x.Name()) {
			arrows[from][to] = append(arrows[from][to], x.Name())
		}
	}
	return arrows
}

// isLocal reports whether an object is a variable of a function.
func isLocal(x types.Object) bool {
	v, isVar := x.(*types.Var)
	return isVar && !v.IsField() && v.Parent() != v.Pkg().Scope()
}

// reach returns the files that a file uses, directly or by others.
func (a fileArrows) reach(from string) map[string]bool {
	seen, next := map[string]bool{}, []string{from}
	for len(next) > 0 {
		file := next[len(next)-1]
		next = next[:len(next)-1]
		for to := range a[file] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

// circlesOf returns the groups of files in which each uses each other, directly or by others.
func circlesOf(a fileArrows) (circles [][]string) {
	reach, placed := map[string]map[string]bool{}, map[string]bool{}
	for file := range a {
		reach[file] = a.reach(file)
	}
	for file := range a {
		if placed[file] || !reach[file][file] {
			continue
		}
		var circle []string
		for other := range reach[file] {
			if reach[other][file] {
				circle, placed[other] = append(circle, other), true
			}
		}
		slices.Sort(circle)
		circles = append(circles, circle)
	}
	return circles
}

// describe lists the names that tie a circle together.
func (a fileArrows) describe(circle []string) string {
	text := "circle of " + strings.Join(circle, " ")
	for _, from := range circle {
		for _, to := range circle {
			if names := a[from][to]; len(names) > 0 {
				slices.Sort(names)
				text += fmt.Sprintf("\n  %s uses %s: %s", from, to, strings.Join(names, " "))
			}
		}
	}
	return text
}

// TestCirclesOf: two files that use each other, and a file between two of a longer circle.
func TestCirclesOf(t *testing.T) {
	one := []string{"name"}
	a := fileArrows{"top": {"a": one}, "a": {"b": one}, "b": {"a": one, "leaf": one}, "x": {"y": one}, "y": {"z": one}, "z": {"x": one, "a": one}}
	got := circlesOf(a)
	slices.SortFunc(got, slices.Compare)
	if text := fmt.Sprint(got); text != "[[a b] [x y z]]" {
		t.Errorf("circles %s", text)
	}
}
