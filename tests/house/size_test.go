package house

import (
	"go/ast"
	"testing"
)

const (
	maxMethods = 40 // of a type
	maxFields  = 25 // of a struct; an embedded type counts as one
)

// exception is a type above a limit. limit is its own limit, which must never be raised, and why
// is the reason.
type exception struct {
	limit int
	why   string
}

var manyMethods = map[string]exception{}

var manyFields = map[string]exception{
	"internal/bench/step.Result":   {32, "stays: a field for each key of the JSON line"},
	"internal/config.Train":        {26, "stays: a field for each key of the section train"},
	"internal/train/report.Result": {60, "stays: a field for each key of result.json"},
	"launcher.Job":                 {32, "stays: a field for each option, with its default"},
	"rank.rankState":               {32, "stays: a plain record of what a rank reported, with times; no code of its own"},
}

// TestTypesFitAHead limits the methods of each type and the fields of each struct. Tests and
// generated code are exempt. An exception that is no longer needed is an error.
func TestTypesFitAHead(t *testing.T) {
	t.Parallel()
	methods, fields := map[string]int{}, map[string]int{}
	for _, s := range sources(t) {
		if s.isTest() || s.isGenerated() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[s.dir()+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							fields[s.dir()+"."+ts.Name.Name] = st.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	within(t, methods, maxMethods, "methods", manyMethods)
	within(t, fields, maxFields, "fields", manyFields)
}

// within reports counts above a limit, and exceptions that are no longer needed.
func within(t *testing.T, counts map[string]int, limit int, what string, exceptions map[string]exception) {
	t.Helper()
	for name, n := range counts {
		x, listed := exceptions[name]
		switch {
		case !listed && n > limit:
			t.Errorf("%s has %d %s, at most %d are allowed", name, n, what, limit)
		case listed && n <= limit:
			t.Errorf("%s has %d %s and no longer needs an exception: remove it", name, n, what)
		case listed && n > x.limit:
			t.Errorf("%s has %d %s, at most %d are allowed (%s)", name, n, what, x.limit, x.why)
		}
	}
	for name := range exceptions {
		if counts[name] == 0 {
			t.Errorf("%s is listed as an exception but has no %s", name, what)
		}
	}
}

// receiver returns the name of the type of a method, without pointer and type parameters.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	}
	return x.(*ast.Ident).Name
}
