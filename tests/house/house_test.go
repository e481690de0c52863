// Package house tests the rules of the module: the order of imports, sizes, names, documents.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const module = "github.com/wdlrun/wdlrun/"

// source is one parsed Go file of the module.
type source struct {
	path string // from the module's root, with slashes
	file *ast.File
	fset *token.FileSet
	text string
}

func (s source) dir() string       { return filepath.ToSlash(filepath.Dir(s.path)) }
func (s source) isTest() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) isGenerated() bool { return ast.IsGenerated(s.file) }

// sources returns all Go files of the module. They are parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	fatal.If(t, err)
	if len(all) < 20 {
		t.Fatalf("only %d Go files found: the walk is broken", len(all))
	}
	return all
}

var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, b, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("../..", path)
		all = append(all, source{filepath.ToSlash(rel), f, fset, string(b)})
		return nil
	})
	return all, err
})

// ranks reads order.txt and returns the line number of each package.
func ranks(t *testing.T) map[string]int {
	b, err := os.ReadFile("order.txt")
	fatal.If(t, err)
	place := map[string]int{}
	for i, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, pkg := range strings.Fields(line) {
			place[pkg] = i
		}
	}
	return place
}

// TestImportsGoOneWay: a package imports only packages above it in order.txt.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	place, seen := ranks(t), map[string]bool{}
	for _, s := range sources(t) {
		seen[s.dir()] = true
		own, ok := place[s.dir()]
		if !ok {
			t.Errorf("%s: package %s is not listed in tests/house/order.txt", s.path, s.dir())
			continue
		}
		if s.isTest() {
			continue // a test may import any package; the compiler rejects cycles
		}
		for _, imp := range s.file.Imports {
			dep, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if !ok {
				continue
			}
			if at, known := place[dep]; !known || at >= own {
				t.Errorf("%s imports %s, which is not above it in tests/house/order.txt", s.path, dep)
			}
		}
	}
	for pkg := range place {
		if !seen[pkg] {
			t.Errorf("tests/house/order.txt names %s, which does not exist", pkg)
		}
	}
}

// TestSparseAndLauncherStandAlone: sparse, dense and launcher can be used without the packages
// listed here.
func TestSparseAndLauncherStandAlone(t *testing.T) {
	t.Parallel()
	forbidden := map[string][]string{
		"sparse":   {"collective", "dense"},
		"dense":    {"collective", "sparse"},
		"launcher": {"collective", "sparse", "dense", "internal/train", "internal/data"},
	}
	for _, s := range sources(t) {
		for _, dep := range forbidden[s.dir()] {
			if !s.isTest() && strings.Contains(s.text, `"`+module+dep+`"`) {
				t.Errorf("%s imports %s: %s must be usable without it", s.path, dep, s.dir())
			}
		}
	}
}

// public lists the packages that other modules may import. CONTRIBUTING.md documents what is
// stable. Every other package is a command or is under internal.
var public = strings.Fields(`checkpoint collective collective/colltest collective/mem collective/shm
	collective/simnet collective/tcp dense launcher nccl optim rank member sparse sparse/table trace`)

// TestOnlyPublicPackagesCanBeImported: the packages outside internal, except commands, are those
// of the list public.
func TestOnlyPublicPackagesCanBeImported(t *testing.T) {
	t.Parallel()
	importable := map[string]bool{}
	for _, s := range sources(t) {
		if !s.isTest() && s.file.Name.Name != "main" && !strings.Contains("/"+s.dir()+"/", "/internal/") {
			importable[s.dir()] = true
		}
	}
	for _, pkg := range public {
		if !importable[pkg] {
			t.Errorf("%s does not exist or cannot be imported", pkg)
		}
		delete(importable, pkg)
	}
	for pkg := range importable {
		t.Errorf("%s can be imported by other modules: move it under internal, or add it to the list", pkg)
	}
}

// maxExported limits the exported functions, methods, types, constants and variables of the
// public packages. A change that adds a name removes another, or its commit message gives
// the reason to raise the limit.
const maxExported = 817

// TestThePublicPackagesStaySmall limits the exported names of the public packages.
func TestThePublicPackagesStaySmall(t *testing.T) {
	t.Parallel()
	names := map[string]bool{} // a name defined for several platforms counts once
	add := func(dir string, path ...string) {
		for _, name := range path {
			if !ast.IsExported(name) {
				return
			}
		}
		names[dir+"."+strings.Join(path, ".")] = true
	}
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(public, s.dir()) {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(s.dir(), d.Name.Name)
				} else {
					add(s.dir(), receiver(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(s.dir(), spec.Name.Name)
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							add(s.dir(), id.Name)
						}
					}
				}
			}
		}
	}
	if len(names) < 500 || len(names) > maxExported {
		t.Errorf("the public packages export %d names, at most %d are allowed", len(names), maxExported)
	}
}

// maxLines limits the lines of a function, so that it fits on a screen.
const maxLines = 70

// TestFunctionsFitAScreen limits the length of each function.
func TestFunctionsFitAScreen(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isGenerated() {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1; n > maxLines {
				t.Errorf("%s: %s has %d lines, at most %d are allowed", s.fset.Position(fn.Pos()), fn.Name.Name, n, maxLines)
			}
		}
	}
}

// TestEveryPackageSaysWhatItIsFor: every package has a comment.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	doc := map[string]string{}
	for _, s := range sources(t) {
		if !s.isTest() || strings.HasPrefix(s.dir(), "tests/") {
			doc[s.dir()] += s.file.Doc.Text()
		}
	}
	for pkg, text := range doc {
		if len(text) < 40 && !strings.HasSuffix(pkg, "pb") {
			t.Errorf("package %s has no comment about its purpose", pkg)
		}
	}
}

var vague = regexp.MustCompile(`(Manager|Handler|Helper|Impl|Base)$`)

// TestNames: no package or type has a vague name, and no interface has more than four methods.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isGenerated() {
			continue
		}
		switch filepath.Base(s.dir()) {
		case "util", "utils", "common", "base", "helpers":
			t.Errorf("%s: %s does not describe its contents", s.path, s.dir())
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok && vague.MatchString(ts.Name.Name) {
				t.Errorf("%s: the type name %s has no meaning", s.fset.Position(ts.Pos()), ts.Name.Name)
			}
			if it, ok := n.(*ast.InterfaceType); ok && it.Methods != nil && len(it.Methods.List) > 4 {
				t.Errorf("%s: an interface of %d methods, at most four are allowed", s.fset.Position(it.Pos()), len(it.Methods.List))
			}
			return true
		})
	}
}

// opensAnything lists the files that may open something other than a regular file, or read a
// file without a limit.
var opensAnything = map[string]bool{
	"checkpoint/disk.go":                true, // a directory, to sync it
	"internal/export/file.go":           true, // a directory, to sync it
	"internal/testkit/golden/golden.go": true, // golden files of tests
	"launcher/hosts.go":                 true, // a hostfile, which may be a pipe
}

// readsEnvironment lists the files outside cmd that may read the environment.
var readsEnvironment = map[string]bool{
	"member/run.go": true, // Run is for main functions of other programs; Join has a parameter getenv
}

// writesRunDirectories matches the packages that write to run directories.
var writesRunDirectories = regexp.MustCompile(`^(checkpoint|internal/runs|internal/train)/`)

// TestOnlyAllowedFilesUseTheOS: no package has an init function, only main exits, and only the
// listed files read the environment or open files without a limit. A file of a run directory is not opened
// for writing through a link.
func TestOnlyAllowedFilesUseTheOS(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || s.isGenerated() || strings.HasPrefix(s.path, "cmd/") || strings.HasPrefix(s.path, "examples/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				if x.Name.Name == "init" && x.Recv == nil {
					t.Errorf("%s: init does work at import", s.fset.Position(x.Pos()))
				}
			case *ast.SelectorExpr:
				pkg, ok := x.X.(*ast.Ident)
				if !ok || pkg.Name != "os" {
					break
				}
				switch x.Sel.Name {
				case "Exit":
					t.Errorf("%s: only main exits", s.fset.Position(x.Pos()))
				case "Getenv", "LookupEnv":
					if !readsEnvironment[s.path] {
						t.Errorf("%s: only cmd may read the environment; pass the value as a parameter", s.fset.Position(x.Pos()))
					}
				case "Create", "WriteFile", "OpenFile", "Truncate":
					if writesRunDirectories.MatchString(s.path) && !strings.HasPrefix(s.path, "internal/train/traintest/") {
						t.Errorf("%s: os.%s follows a link that another user may have put in a run directory: use internal/machine/regular", s.fset.Position(x.Pos()), x.Sel.Name)
					}
				case "ReadFile", "Open":
					if !opensAnything[s.path] && !strings.HasPrefix(s.path, "internal/bench/") && !strings.HasPrefix(s.path, "internal/kernel/gen/") {
						t.Errorf("%s: os.%s blocks on a pipe and reads without a limit: use internal/machine/regular", s.fset.Position(x.Pos()), x.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// TestEveryFaultHasATest: each row of the table of faults in docs/running.md names tests that
// exist.
func TestEveryFaultHasATest(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/running.md")
	fatal.If(t, err)
	_, table, _ := strings.Cut(string(b), "\n| fault |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 20 {
		t.Errorf("the table of faults has only %d rows", len(rows))
	}
	exists := map[string]bool{}
	for _, s := range sources(t) {
		for _, m := range testNames.FindAllStringSubmatch(s.text, -1) {
			exists[m[1]] = true
		}
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 5 || len(tests) == 0 {
			t.Errorf("a row has %d cells and %d tests:%s", len(cells), len(tests), row)
		}
		for _, m := range tests {
			if !exists[m[1]] {
				t.Errorf("test %s does not exist, for the fault:%s", m[1], cells[0])
			}
		}
	}
}

var testNames = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// TestNothingIsLeftUnfinished: no file contains a mark of unfinished work.
func TestNothingIsLeftUnfinished(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.path == "tests/house/house_test.go" {
			continue
		}
		if m := unfinished.FindString(s.text); m != "" {
			t.Errorf("%s contains %s", s.path, m)
		}
	}
}
