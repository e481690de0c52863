// Command f32 writes the assembly of package internal/kernel/f32, one file for each
// family of kernels:
//
//	go -C internal/kernel/gen run ./f32
package main

import (
	"errors"
	"log"

	"github.com/wdlrun/wdlrun/internal/kernel/gen/asm"
)

func main() {
	var err error
	for _, f := range []asm.File{
		{Package: "f32", Name: "sum", Body: sum},
		{Package: "f32", Name: "product", Body: product},
		{Package: "f32", Name: "pack", Body: pack},
		{Package: "f32", Name: "narrow", Body: narrowProducts},
		{Package: "f32", Name: "sparse", Body: sparse},
		{Package: "f32", Name: "rows", Body: rows},
		{Package: "f32", Name: "pairs", Body: pairs},
		{Package: "f32", Name: "elements", Body: elements},
		{Package: "f32", Name: "loss", Body: loss},
		{Package: "f32", Name: "pool", Body: pools},
		{Package: "f32", Name: "tiles", Body: tiles},
		{Package: "f32", Name: "amx", Body: matrix},
		{Package: "f32", Name: "bf16", Body: dots},
		{Package: "f32", Name: "tiles_bf16", Body: tilesBF16},
	} {
		err = errors.Join(err, f.Write(".."))
	}
	for _, f := range []asm.ArmFile{
		{Package: "f32", Name: "product", Body: productNEON},
		{Package: "f32", Name: "pack", Body: packNEON},
		{Package: "f32", Name: "rows", Body: rowsNEON},
		{Package: "f32", Name: "elements", Body: elementsNEON},
		{Package: "f32", Name: "loss", Body: lossNEON},
		{Package: "f32", Name: "pool", Body: poolNEON},
		{Package: "f32", Name: "tiles", Body: tilesNEON},
	} {
		err = errors.Join(err, f.Write(".."))
	}
	if err != nil {
		log.Fatal(err)
	}
}
