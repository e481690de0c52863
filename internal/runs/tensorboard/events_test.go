package tensorboard

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// proto follows the documented field numbers.
const proto = `syntax = "proto3";
import "google/protobuf/struct.proto";
message SessionStartInfo { map<string, google.protobuf.Value> hparams = 1; double start_time_secs = 5; }
message SessionEndInfo { int32 status = 1; double end_time_secs = 2; }
message PluginContent { int32 version = 1; uint32 num_thresholds = 2; SessionStartInfo session_start_info = 3; SessionEndInfo session_end_info = 4; }
message PluginData { string plugin_name = 1; PluginContent content = 2; }
message Dim { int64 size = 1; }
message Shape { repeated Dim dim = 2; }
message Tensor { int32 dtype = 1; Shape tensor_shape = 2; repeated float float_val = 5; repeated double double_val = 6; }
message SummaryMetadata { PluginData plugin_data = 1; int32 data_class = 4; }
message Value { string tag = 1; float simple_value = 2; Tensor tensor = 8; SummaryMetadata metadata = 9; }
message Summary { repeated Value value = 1; }
message SessionLog { int32 status = 1; }
message ListValue { repeated Shape shape = 7; }
message AttrValue { ListValue list = 1; string s = 2; int64 i = 3; }
message NodeDef { string name = 1; string op = 2; repeated string input = 3; map<string, AttrValue> attr = 5; }
message VersionDef { int32 producer = 1; }
message GraphDef { repeated NodeDef node = 1; VersionDef versions = 4; }
message Event { double wall_time = 1; int64 step = 2; string file_version = 3; GraphDef graph_def = 4; Summary summary = 5; SessionLog session_log = 7; }
message File { repeated Event event = 1; }
`

func run(t *testing.T) *runs.Run {
	dir := t.TempDir()
	config := "model: {kind: wide_deep, wide: true}\ntrain: {seed: 7, note: \"<x>\"}\ndata: {train: [a]}\n"
	fatal.If(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644))
	// One run of norms, none of gradients; three thresholds; then a line that cannot be.
	lines := `{"step":20,"time":"2023-11-14T22:13:21Z","tables":[{"table":"t","embeddings":{"first":190,"counts":[2,0,3]},"gradients":{"first":0,"counts":[]}}],"pr_curves":[{"true_positives":[4,3,0],"false_positives":[6,1,0]},{"label":"buys","true_positives":[1,1],"false_positives":[2,0]}]}
{"step":40,"tables":[{"table":"t","embeddings":{"first":380,"counts":[1,1,1,1,1,1,1]}}]}
`
	fatal.If(t, os.WriteFile(filepath.Join(dir, "distributions.jsonl"), []byte(lines), 0o644))
	// One good line about ranks, and one with a time too few.
	lines = `{"event":"ranks","time":"2023-11-14T22:13:21Z","step":20,"phases":["input","pull","compute"],"seconds":[[0.25,0.5,1],[0.25,0.125,1.375]]}
{"event":"ranks","step":40,"phases":["input","pull"],"seconds":[[0.25]]}
`
	fatal.If(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines), 0o644))
	r, err := runs.Read(dir)
	fatal.If(t, err)
	at := time.Unix(1700000000, 500000000)
	auc, loss := 0.875, 0.25
	nan := math.NaN()
	return &runs.Run{Summary: runs.Summary{Dir: dir, Name: "a", Began: at, Seconds: 2.5, State: runs.Finished, Config: r.Config},
		Train: []runs.Point{
			{Time: at, Step: 1, Epoch: 1, Samples: 256, LogLoss: 0.5, Rate: 1, Speed: 1000},
			{Time: at.Add(time.Second), Step: 20, Epoch: 1, Samples: 5120, LogLoss: nan, Rate: 1, Speed: math.Inf(1)},
		},
		Valid: []runs.Point{{Time: at.Add(time.Second), Step: 20, Epoch: 1, Samples: 5120, LogLoss: 0.375, Rate: nan, Speed: nan}},
		Test:  []runs.Point{{Time: at.Add(2 * time.Second), Step: 20, Epoch: 1, Samples: 5120, LogLoss: 0.25, Rate: nan, Speed: nan, Metrics: &runs.Metrics{AUC: &auc, LogLoss: &loss}}},
	}
}

// records splits a file into its frames, and verifies their checksums with a CRC
// independent of the writer's.
func records(t *testing.T, b []byte) (all [][]byte) {
	t.Helper()
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if got, want := binary.LittleEndian.Uint32(b[8:]), masked(b[:8]); got != want {
			t.Fatalf("checksum of a length is %x, want %x", got, want)
		}
		record := b[12 : 12+n]
		if got, want := binary.LittleEndian.Uint32(b[12+n:]), masked(record); got != want {
			t.Fatalf("checksum of a record is %x, want %x", got, want)
		}
		all, b = append(all, record), b[16+n:]
	}
	return all
}

func masked(b []byte) uint32 {
	crc := ^uint32(0)
	for _, x := range b { // bit by bit
		crc ^= uint32(x)
		for range 8 {
			crc = crc>>1 ^ crc32.Castagnoli*(crc&1)
		}
	}
	crc = ^crc
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// TestEventFiles decodes the written files with protoc.
func TestEventFiles(t *testing.T) {
	dir := t.TempDir()
	r := run(t)
	paths, err := Write(dir, r, Keys([]*runs.Summary{&r.Summary}))
	if err != nil || len(paths) != 7 {
		t.Fatalf("%q, %v", paths, err)
	}
	if want := filepath.Join(dir, "a", "model", "train", "events.out.tfevents.1700000000.wdlrun"); paths[0] != want {
		t.Errorf("%s, want %s", paths[0], want)
	}
	if len(r.Faults) != 2 || r.Faults[1] != "metrics.jsonl: line 2: rank 0 has 1 times of 2 phases" || !strings.HasPrefix(r.Faults[0], "distributions.jsonl: line 2: a histogram of 7 bins from bin 380") {
		t.Errorf("faults %q", r.Faults)
	}
	text := ""
	for _, path := range paths {
		text += read(t, path)
	}
	golden.Check(t, "events.txt", text)
}

// read returns the events of a file as protoc prints them.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	var whole []byte // a message File
	for _, r := range records(t, b) {
		whole = append(binary.AppendUvarint(append(whole, 1<<3|2), uint64(len(r))), r...)
	}
	return decode(t, "File", whole)
}

// decode returns a message as protoc prints it.
func decode(t *testing.T, kind string, m []byte) string {
	t.Helper()
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		t.Skip("needs protoc to decode the events")
	}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "e.proto"), []byte(proto), 0o644))
	cmd := exec.CommandContext(t.Context(), protoc, "--decode="+kind, "-I"+dir, "e.proto")
	cmd.Stdin = bytes.NewReader(m)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
