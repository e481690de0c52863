package house

import (
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

// TestFilesOfTheJobGoOneWay checks the files of internal/train against rooms.txt: a file may only
// use what is declared in itself and in the files below it in the list.
func TestFilesOfTheJobGoOneWay(t *testing.T) {
	b, err := os.ReadFile("rooms.txt")
	fatal.If(t, err)
	place := map[string]int{}
	for i, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "#") {
			for _, name := range strings.Fields(line) {
				place[name] = i
			}
		}
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, s := range sources(t) {
		if s.dir() != "internal/train" || s.isTest() {
			continue
		}
		f, err := parser.ParseFile(fset, path.Base(s.path), s.text, 0)
		fatal.If(t, err)
		files = append(files, f)
	}
	fileOf := func(p token.Pos) string { return fset.Position(p).Filename }
	if len(files) != len(place)+1 { // doc.go declares nothing
		t.Errorf("internal/train has %d files, tests/house/rooms.txt names %d of them", len(files)-1, len(place))
	}
	var wrong []string
	for id, x := range uses(fset, files) {
		from, to := fileOf(id.Pos()), fileOf(x.Pos())
		if from != to && !isLocal(x) && place[from] >= place[to] {
			wrong = append(wrong, fmt.Sprintf("%s uses %s of %s, which tests/house/rooms.txt does not put below it", from, x.Name(), to))
		}
	}
	slices.Sort(wrong)
	for _, line := range slices.Compact(wrong) {
		t.Error("internal/train: " + line)
	}
}

// uses returns the objects of a package that its own files use. Imported packages are treated as
// empty.
func uses(fset *token.FileSet, files []*ast.File) map[*ast.Ident]types.Object {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: noPackages{}, Error: func(error) {}} // names of imported packages are unknown
	pkg, _ := c.Check("wdl", fset, files, info)
	for id, x := range info.Uses {
		if x.Pkg() != pkg || !x.Pos().IsValid() {
			delete(info.Uses, id)
		}
	}
	return info.Uses
}

// noPackages imports every package as an empty one.
type noPackages struct{}

func (noPackages) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
