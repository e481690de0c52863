package input

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestRun(t *testing.T) {
	var log bytes.Buffer
	g, err := synth.New("criteo")
	fatal.If(t, err)
	fatal.If(t, g.Write(&log, 0, 20_000))
	path := filepath.Join(t.TempDir(), "log.tsv")
	fatal.If(t, os.WriteFile(path, log.Bytes(), 0o644))
	s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: "I1", Encode: "raw"}, {Field: "C1", Encode: "hash"}}}
	for _, shuffle := range []bool{false, true} {
		r, err := Run(context.Background(), Options{
			Source: schema.Source{Format: "criteo"}, Schema: s, Files: []string{path}, Batch: 1024, Shuffle: shuffle, Time: time.Millisecond,
		})
		fatal.If(t, err)
		if r.Records != 20_000 || r.RecordsPerSecond <= 0 || r.Rounds != 1 {
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
