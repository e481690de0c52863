package input

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/fatal"
)

func TestRun(t *testing.T) {
	var log bytes.Buffer
	fatal.If(t, synth.Write(&log, "criteo", 0, 20_000))
	path := filepath.Join(t.TempDir(), "log.tsv")
	fatal.If(t, os.WriteFile(path, log.Bytes(), 0o644))
	s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "I1", Encode: "raw"}, {Field: "C1", Encode: "hash"}}}
	for _, shuffle := range []bool{false, true} {
		r, err := Run(context.Background(), Options{
			Source: schema.Source{Format: "criteo"}, Schema: s, Files: []string{path}, Shuffle: shuffle, Time: time.Millisecond,
		})
		fatal.If(t, err)
		if r.Records != 20_000 || r.RecordsPerSecond <= 0 || r.Rounds != 1 || r.Library != "encoding/csv" || r.LibraryRecordsPerSecond <= 0 || r.Ratio <= 0 || r.CPURatio <= 0 {
			t.Errorf("%+v", r)
		}
		bytesEach := float64(log.Len()) / 20_000
		if got := r.BytesPerSecond / r.RecordsPerSecond; got < 0.99*bytesEach || got > 1.01*bytesEach {
			t.Errorf("%v bytes a record, want %v", got, bytesEach)
		}
		// In the order of the file the buffers have grown by then.
		if !shuffle && r.AllocsPerRecord > 0.05 {
			t.Errorf("%v allocations a record", r.AllocsPerRecord)
		}
	}
	few := Options{Source: schema.Source{Format: "criteo"}, Schema: s, Files: []string{path}, Batch: 20_000 / warmup, Time: time.Millisecond}
	if _, err := Run(context.Background(), few); err == nil || !strings.HasSuffix(err.Error(), ": use more than 20000, or -batch N below 2500") {
		t.Errorf("batches of the warm-up alone: %v", err)
	}
	few.Batch--
	if _, err := Run(context.Background(), few); err != nil {
		t.Errorf("what the message advises: %v", err)
	}
}

// TestLibraries compares every format with its library, to the last record.
func TestLibraries(t *testing.T) {
	const rows = 3000
	columns := []write.Column{{Name: "label", Kind: value.Int}, {Name: "C1", Kind: value.Text}}
	s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "C1", Encode: "hash"}}}
	for format, library := range map[string]string{"tfrecord": "protoc-gen-go", "parquet": "parquet-go", "csv": "encoding/csv", "jsonl": "encoding/json", "libffm": ""} {
		var out bytes.Buffer
		if format == "libffm" {
			for i := range rows {
				fmt.Fprintf(&out, "%d 1:%d:1\n", i%2, i)
			}
			s.Features[0].Field = "1"
		} else {
			w, err := write.New(&out, write.Layout{Format: format}, columns)
			fatal.If(t, err)
			for i := range rows {
				fatal.If(t, w.Write([]value.List{{Kind: value.Int, Ints: []int64{int64(i % 2)}}, {Kind: value.Text, Texts: [][]byte{fmt.Append(nil, i)}}}))
			}
			fatal.If(t, w.Close())
			s.Features[0].Field = "C1"
		}
		path := filepath.Join(t.TempDir(), "x."+format)
		fatal.If(t, os.WriteFile(path, out.Bytes(), 0o644))
		src := schema.Source{Format: format, Header: format == "csv"}
		r, err := Run(context.Background(), Options{Source: src, Schema: s, Files: []string{path}, Batch: 100, Time: 50 * time.Millisecond})
		if err != nil || r.Library != library || r.Records < rows || (r.Ratio > 0) != (library != "") {
			t.Errorf("%s: %+v, %v", format, r, err)
		}
		if b := libraryFor(src); b != nil {
			header := int64(0)
			if src.Header {
				header = 1
			}
			if n, err := b.read(path, time.Now().Add(time.Minute)); n != rows+header || err != nil {
				t.Errorf("%s reads %d records, %v", b.name, n, err)
			}
		}
	}
}
