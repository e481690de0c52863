package input

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/data/synth"
)

func TestRun(t *testing.T) {
	var log bytes.Buffer
	if err := synth.Write(&log, "criteo", 0, 20_000); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log.tsv")
	if err := os.WriteFile(path, log.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	s := data.Schema{Label: data.Label{Field: "label"}, Features: []data.Feature{{Field: "I1", Encode: "raw"}, {Field: "C1", Encode: "hash"}}}
	for _, shuffle := range []bool{false, true} {
		r, err := Run(context.Background(), Options{
			Source: data.Source{Format: "criteo"}, Schema: s, Files: []string{path}, Shuffle: shuffle, Time: time.Nanosecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Records != 20_000-warmup*defaultBatch || r.RecordsPerSecond <= 0 || r.CSVRecordsPerSecond <= 0 {
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
	if _, err := Run(context.Background(), Options{Source: data.Source{Format: "criteo"}, Schema: s, Files: []string{path}, Batch: 20_000}); err == nil {
		t.Error("one batch was measured")
	}
}
