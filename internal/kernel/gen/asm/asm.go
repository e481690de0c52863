// Package asm turns generator functions into the assembly files of the main module. A
// generator describes a kernel with avo: registers without numbers, loops in Go, checked
// operands. The main module contains only the result, so it does not depend on avo.
package asm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// File is one assembly file and the Go declarations of its functions.
type File struct {
	Package string // the Go package, which is also the folder under internal
	Name    string // NAME gives NAME_amd64.s and NAME_stubs_amd64.go
	Body    func(*build.Context)
}

// Write generates the file below root, the folder internal of the main module.
func (f File) Write(root string) error {
	x := build.NewContext()
	x.ConstraintExpr("!noasm")
	f.Body(x)
	code, err := x.Result()
	if err != nil {
		return fmt.Errorf("gen: %s: %w", f.Name, err)
	}
	if err := pass.Concat(pass.Verify, pass.Compile).Execute(code); err != nil {
		return fmt.Errorf("gen: %s: %w", f.Name, err)
	}
	c := printer.Config{Name: "avo", Pkg: f.Package, Argv: []string{"go", "-C", "internal/kernel/gen", "run", "./" + f.Package}}
	text, errText := printer.NewGoAsm(c).Print(code)
	stubs, errStubs := printer.NewStubs(c).Print(code)
	base := filepath.Join(root, f.Package, f.Name)
	return errors.Join(errText, errStubs,
		os.WriteFile(base+"_amd64.s", text, 0o644),
		os.WriteFile(base+"_stubs_amd64.go", stubs, 0o644))
}

// Param loads a parameter of the function into a new 64-bit register.
func Param(x *build.Context, name string) reg.GPVirtual {
	r := x.GP64()
	x.Load(x.Param(name), r)
	return r
}

// At returns the memory operand at p + disp bytes.
func At(p reg.Register, disp int) operand.Mem { return operand.Mem{Base: p, Disp: disp} }

// Indexed returns the memory operand at p + i·scale + disp bytes.
func Indexed(p, i reg.Register, scale uint8, disp int) operand.Mem {
	return operand.Mem{Base: p, Index: i, Scale: scale, Disp: disp}
}
