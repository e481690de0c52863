#!/usr/bin/env bash
# parquet-go 0.32.0: a BOOLEAN column in pages of version 2 with the encoding RLE, as pyarrow writes them with
# data_page_version="2.0", is decoded wrongly and without an error: of a run of equal values that fills a byte, one value
# stays true and the others become false. arrow-go 18.8.0, which wrote the file, reads it back correctly.
#
# Why it matters: labels of click models are booleans. Training succeeds on labels that are mostly turned to 0.
#
# Seen: written 8 x true, 8 x false; parquet-go reads a single true.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir" && rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	parquetgo "github.com/parquet-go/parquet-go"
)

func must[T any](x T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return x
}

func main() {
	want := make([]bool, 16)
	for i := range 8 {
		want[i] = true
	}
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	b.AppendValues(want, nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "click", Type: arrow.FixedWidthTypes.Boolean}}, nil)
	var out bytes.Buffer
	w := must(pqarrow.NewFileWriter(schema, &out, parquet.NewWriterProperties(
		parquet.WithDictionaryDefault(false), parquet.WithEncoding(parquet.Encodings.RLE),
		parquet.WithDataPageVersion(parquet.DataPageV2)), pqarrow.DefaultWriterProps()))
	if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, 16)); err != nil {
		must(0, err)
	}
	must(0, w.Close())

	own := must(file.NewParquetReader(bytes.NewReader(out.Bytes())))
	r := must(pqarrow.NewFileReader(own, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator))
	table := must(r.ReadTable(context.Background()))
	arrowGo := table.Column(0).Data().Chunk(0).(*array.Boolean)

	f := must(parquetgo.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len())))
	rows := make([]parquetgo.Row, 16)
	reader := f.RowGroups()[0].Rows()
	n, _ := reader.ReadRows(rows)
	trues, arrowTrues := 0, 0
	for i := range n {
		if rows[i][0].Boolean() {
			trues++
		}
		if arrowGo.Value(i) {
			arrowTrues++
		}
	}
	fmt.Printf("written %d rows, 8 of them true; arrow-go reads %d true, parquet-go %d of %d rows, without an error\n", len(want), arrowTrues, trues, n)
	if arrowTrues != 8 || n != 16 || trues == 8 {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
cat >go.mod <<'MOD'
module finding

go 1.26

require (
	github.com/apache/arrow-go/v18 v18.8.0
	github.com/parquet-go/parquet-go v0.32.0
)
MOD
CGO_ENABLED=0 GOFLAGS=-mod=mod go run .
