package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestProductsAreRounded finds floating-point products that a compiler may fuse with an addition
// into an operation with one rounding. Go does this on arm64 and with GOAMD64=v3, so the result
// has other bits there: see docs/design/0010-rounding.md.
func TestProductsAreRounded(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	load := exportData(t)
	check := newFusing(load)
	var all []compiled
	for _, dir := range load.dirs {
		all = append(all, check.folder(t, dir)...)
	}
	for range 2 { // the second round knows the functions of later packages
		check.found = nil
		for _, s := range all {
			check.examine(s)
		}
	}
	slices.Sort(check.found)
	for _, place := range slices.Compact(check.found) {
		t.Errorf("%s: a product is added without an explicit conversion; write float32(x*y) + z or float64(x*y) + z", place)
	}
}

// TestFusableExpressionsAreFound compares the findings with the expressions that compilers may
// fuse.
func TestFusableExpressionsAreFound(t *testing.T) {
	t.Parallel()
	const source = `package p
func square(x float64) float64 { return x * x }
func add(x, y float64) float64 { return x + y } // want
func f(x, y, z float64, s float32, n int) (float64, float32, int) {
	z = x*y + z             // want
	z = z - (x * y)         // want
	z += -x * y             // want
	s -= s * s              // want
	p := x * y
	z = p + z               // want
	q := x
	q *= y
	q++                     // want
	z += square(x)          // want
	z = add(x*y, z)
	z += float64(x*y) + x/y
	s += float32(s * s)
	n += n*n - 1
	const c = 2.5*2 + 1
	return z + c, s, n
}
`
	check := newFusing(packages{})
	check.examine(check.load(t, "p", []string{"p.go"}, source))
	var want []string
	for i, line := range strings.Split(source, "\n") {
		if strings.HasSuffix(line, "// want") {
			want = append(want, fmt.Sprintf("p.go:%d", i+1))
		}
	}
	got := slices.Compact(check.found)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// packages contains the folders of the module and the export data of the packages that they
// import.
type packages struct {
	root    string
	dirs    []folder
	exports map[string]string
}

type folder struct{ Dir, ImportPath string }

// exportData asks the go command for the export data. The go command has compiled all packages
// for the tests.
func exportData(t *testing.T) packages {
	t.Helper()
	command := exec.Command("go", "list", "-deps", "-export", "-json=Dir,ImportPath,Export,Module", "./...")
	command.Dir = "../.."
	var message bytes.Buffer
	command.Stderr = &message
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, message.Bytes())
	}
	root, err := filepath.Abs("../..")
	fatal.If(t, err)
	p := packages{root: root, exports: map[string]string{}}
	for decode := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct {
			folder
			Export string
			Module *struct{ Main bool }
		}
		if err := decode.Decode(&one); errors.Is(err, io.EOF) {
			return p
		} else if err != nil {
			t.Fatal(err)
		}
		p.exports[one.ImportPath] = one.Export
		if one.Module != nil && one.Module.Main {
			p.dirs = append(p.dirs, one.folder)
		}
	}
}

// fusing finds additions of products. It follows a product through variables,
// parameters and results, because compilers fuse across statements and after
// inlining. It does not follow products through fields and elements of slices.
type fusing struct {
	packages
	set      *token.FileSet
	importer types.Importer
	info     types.Info
	fresh    bool            // product or variable has grown
	product  map[string]bool // functions that return a product, and parameters that receive one
	variable map[types.Object]bool
	found    []string
}

func newFusing(p packages) *fusing {
	f := &fusing{packages: p, set: token.NewFileSet(), product: map[string]bool{}}
	f.importer = importer.ForCompiler(f.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(p.exports[path])
	})
	return f
}

// compiled is a package as one architecture compiles it.
type compiled struct {
	files []*ast.File
	info  types.Info
}

// folder loads a package once for each set of architectures that compile the same files.
func (f *fusing) folder(t *testing.T, dir folder) (all []compiled) {
	t.Helper()
	var before []string
	for _, arch := range []string{"amd64", "arm64"} {
		context := build.Default
		context.GOARCH, context.CgoEnabled = arch, false
		files, err := context.ImportDir(dir.Dir, 0)
		if none := (*build.NoGoError)(nil); errors.As(err, &none) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(files.GoFiles, before) {
			continue
		}
		before = files.GoFiles
		var names []string
		for _, name := range files.GoFiles {
			names = append(names, filepath.Join(dir.Dir, name))
		}
		all = append(all, f.load(t, dir.ImportPath, names, nil))
	}
	return all
}

// load parses one package and computes its types. A source replaces the contents of its files.
func (f *fusing) load(t *testing.T, path string, names []string, source any) compiled {
	t.Helper()
	var parsed []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(f.set, name, source, parser.SkipObjectResolution)
		fatal.If(t, err)
		parsed = append(parsed, file)
	}
	info := types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Instances: map[*ast.Ident]types.Instance{},
	}
	config := types.Config{Importer: f.importer, Sizes: types.SizesFor("gc", "amd64")}
	if _, err := config.Check(path, f.set, parsed, &info); err != nil {
		t.Fatal(err)
	}
	return compiled{parsed, info}
}

// examine finds the sums in one package.
func (f *fusing) examine(s compiled) {
	f.info, f.variable = s.info, map[types.Object]bool{}
	for f.fresh = true; f.fresh; {
		f.fresh = false
		for _, file := range s.files {
			ast.Inspect(file, f.learn)
		}
	}
	for _, file := range s.files {
		ast.Inspect(file, f.search)
	}
}

// learn records the variables that contain a product and the functions that return one.
func (f *fusing) learn(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if n.Tok == token.MUL_ASSIGN && f.isFloat(left) ||
				len(n.Lhs) == len(n.Rhs) && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE) && f.isProduct(n.Rhs[i]) {
				f.holds(left)
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if len(n.Names) == len(n.Values) && f.isProduct(value) {
				f.holds(n.Names[i])
			}
		}
	case *ast.FuncDecl:
		f.results(n)
		f.parameters(n)
	case *ast.CallExpr:
		if name := f.called(n); name != "" {
			for i, argument := range n.Args {
				if f.isProduct(argument) {
					f.mark(fmt.Sprint(name, "#", i))
				}
			}
		}
	}
	return true
}

func (f *fusing) results(n *ast.FuncDecl) {
	if n.Body == nil {
		return
	}
	ast.Inspect(n.Body, func(inner ast.Node) bool {
		if _, is := inner.(*ast.FuncLit); is {
			return false
		}
		if back, is := inner.(*ast.ReturnStmt); is && len(back.Results) == 1 && f.isProduct(back.Results[0]) {
			f.mark(f.info.Defs[n.Name].(*types.Func).FullName())
		}
		return true
	})
}

func (f *fusing) parameters(n *ast.FuncDecl) {
	i := 0
	for _, field := range n.Type.Params.List {
		for _, name := range field.Names {
			if f.product[fmt.Sprint(f.info.Defs[n.Name].(*types.Func).FullName(), "#", i)] {
				f.holds(name)
			}
			i++
		}
	}
}

func (f *fusing) mark(name string) {
	f.fresh = f.fresh || !f.product[name]
	f.product[name] = true
}

func (f *fusing) holds(left ast.Expr) {
	if object := f.object(left); object != nil && !f.variable[object] {
		f.fresh = true
		f.variable[object] = true
	}
}

// object returns the variable or function that an expression names, or nil for a field.
func (f *fusing) object(e ast.Expr) types.Object {
	var name *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		name = e
	case *ast.SelectorExpr:
		name = e.Sel
	default:
		return nil
	}
	object := f.info.Defs[name]
	if object == nil {
		object = f.info.Uses[name]
	}
	if variable, is := object.(*types.Var); is && variable.IsField() {
		return nil
	}
	return object
}

// called returns the name of the called function, if the source determines it.
func (f *fusing) called(call *ast.CallExpr) string {
	e := ast.Unparen(call.Fun)
	switch index := e.(type) {
	case *ast.IndexExpr:
		e = index.X
	case *ast.IndexListExpr:
		e = index.X
	}
	if function, is := f.object(e).(*types.Func); is {
		return function.Origin().FullName()
	}
	return ""
}

func (f *fusing) isProduct(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		return e.Op == token.MUL && f.isFloat(e)
	case *ast.UnaryExpr:
		return e.Op != token.AND && f.isProduct(e.X)
	case *ast.CallExpr:
		name := f.called(e)
		return name != "" && f.product[name]
	case *ast.Ident:
		return f.variable[f.object(e)] && f.isFloat(e)
	}
	return false
}

// isFloat reports whether e is computed at run time in floating point.
func (f *fusing) isFloat(e ast.Expr) bool {
	value := f.info.Types[e]
	kind := value.Type
	if kind == nil {
		object := f.object(e)
		if object == nil {
			return false
		}
		kind = object.Type()
	}
	if value.Value != nil {
		return false
	}
	if parameter, is := kind.(*types.TypeParam); is { // a constraint such as ~float32 | ~float64
		float := false
		for one := range parameter.Underlying().(*types.Interface).EmbeddedTypes() {
			if union, is := one.(*types.Union); is {
				for term := range union.Terms() {
					float = float || isFloat(term.Type())
				}
			}
		}
		return float
	}
	return isFloat(kind)
}

func isFloat(kind types.Type) bool {
	basic, is := kind.Underlying().(*types.Basic)
	return is && basic.Info()&types.IsFloat != 0
}

func (f *fusing) search(n ast.Node) bool {
	fused := false
	switch n := n.(type) {
	case *ast.BinaryExpr:
		fused = (n.Op == token.ADD || n.Op == token.SUB) && f.isFloat(n) && (f.isProduct(n.X) || f.isProduct(n.Y))
	case *ast.AssignStmt:
		fused = (n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN) && (f.isProduct(n.Rhs[0]) || f.isProduct(n.Lhs[0]))
	case *ast.IncDecStmt:
		fused = f.isProduct(n.X)
	}
	if fused {
		place := f.set.Position(n.Pos())
		name, err := filepath.Rel(f.root, place.Filename)
		if err != nil {
			name = place.Filename
		}
		f.found = append(f.found, fmt.Sprintf("%s:%d", name, place.Line))
	}
	return true
}
