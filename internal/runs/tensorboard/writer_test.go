package tensorboard

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// whole returns the frames of a growing file: all but a cut one at its end.
func whole(b []byte) (all [][]byte, cut bool) {
	for len(b) >= 12 {
		n := binary.LittleEndian.Uint64(b)
		if uint64(len(b)) < 16+n {
			return all, true
		}
		if binary.LittleEndian.Uint32(b[8:]) != masked(b[:8]) || binary.LittleEndian.Uint32(b[12+n:]) != masked(b[12:12+n]) {
			return all, true
		}
		all, b = append(all, b[12:12+n]), b[16+n:]
	}
	return all, len(b) > 0
}

// TestAGrowingFileIsSafeToRead: after each event the file ends with it, and a reader that
// sees any shorter part of the file gets the events before.
func TestAGrowingFileIsSafeToRead(t *testing.T) {
	dir := t.TempDir()
	w := New(dir, time.Unix(1700000000, 0), 1)
	defer w.Close()
	var b []byte
	for i := 1; i <= 5; i++ {
		fatal.If(t, w.Point(runs.Train, &runs.Point{Step: int64(i), LogLoss: 0.5}))
		var err error
		if b, err = os.ReadFile(filepath.Join(dir, "model", "train", "events.out.tfevents.1700000000.wdlrun")); err != nil {
			t.Fatal(err)
		}
		if all, cut := whole(b); cut || len(all) != 2+i { // version, start
			t.Fatalf("after event %d the file has %d, cut %v", i, len(all), cut)
		}
	}
	full, _ := whole(b)
	for n := range b {
		all, _ := whole(b[:n])
		if len(all) >= len(full) || !slices.EqualFunc(all, full[:len(all)], slices.Equal) {
			t.Fatalf("%d bytes of %d have %d events", n, len(b), len(all))
		}
	}
}

// TestAResumedTrainingRepeatsSteps: the files of a training that resumed after step 60 and
// of one that began again have other names, and a reader that discards what TensorBoard
// discards sees every step once.
func TestAResumedTrainingRepeatsSteps(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1700000000, 0)
	for _, x := range []struct{ first, last int64 }{{1, 100}, {61, 120}, {1, 0}, {1, 40}} {
		w := New(dir, now, x.first)
		w.Model([]byte("data: {train: [x.csv], header: true}\nlabel: {field: y, positive: [a]}\nfeatures: [{field: f, encode: hash}]\n"))
		for step := x.first + 19; step <= x.last; step += 20 {
			fatal.If(t, w.Point(runs.Train, &runs.Point{Step: step, LogLoss: 0.5}))
		}
		fatal.If(t, w.Close())
	}
	paths, err := filepath.Glob(filepath.Join(dir, "model", "train", "*")) // in the order in which TensorBoard reads them
	if err != nil || len(paths) != 3 {
		t.Fatalf("%q, %v", paths, err)
	}
	step, start := regexp.MustCompile(`(?m)^  step: (\d+)$`), "session_log {\n    status: 1\n"
	var steps []int
	for i, path := range paths {
		events := read(t, path)
		if n := strings.Count(events, "graph_def {"); n != 1 {
			t.Errorf("%d graphs in %s", n, path)
		}
		for _, text := range strings.Split(events, "\nevent {") {
			n := 0
			if m := step.FindStringSubmatch(text); m != nil {
				fmt.Sscan(m[1], &n)
			}
			switch {
			case strings.Contains(text, start):
				steps = slices.DeleteFunc(steps, func(s int) bool { return s >= n })
			case strings.Contains(text, "summary"):
				steps = append(steps, n)
			}
		}
		if want := [][]int{{20, 40, 60, 80, 100}, {20, 40, 60, 80, 100, 120}, {20, 40}}[i]; !slices.Equal(steps, want) {
			t.Errorf("after file %d steps %v, want %v", i, steps, want)
		}
	}
}

// TestAResumedTrainingHasItsOwnHyperparameters: TensorBoard shows the first start and the first end
// in the folder, so the job that finishes leaves only its own there, and a failed one no end.
func TestAResumedTrainingHasItsOwnHyperparameters(t *testing.T) {
	dir := t.TempDir()
	for i, rate := range []string{"0.125", "0.25"} {
		settings, err := runs.ParseSettings([]byte("train: {rate: " + rate + "}\n"))
		fatal.If(t, err)
		w := New(dir, time.Unix(1700000000, 0), 1)
		fatal.If(t, w.Begin(&settings, []string{"train.rate"}, time.Unix(1700000000, 0)))
		if i == 1 {
			fatal.If(t, w.End(time.Unix(1700000009, 0)))
		}
		fatal.If(t, w.Close())
		paths, err := filepath.Glob(filepath.Join(dir, "model", "*"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("job %d leaves %q, %v", i, paths, err)
		}
		text := read(t, paths[0])
		if !strings.Contains(text, "number_value: "+rate+"\n") || strings.Count(text, "session_end_info {") != i || strings.Count(text, "session_start_info {") != 1 {
			t.Errorf("job %d wrote\n%s", i, text)
		}
	}
}

// TestAFullDisk: the file ends with the last whole event.
func TestAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	w := New(t.TempDir(), time.Unix(1700000000, 0), 1)
	fatal.If(t, w.Point(runs.Train, &runs.Point{Step: 1}))
	f := w.files["model/train"]
	f.to.Close()
	f.to = full
	err = w.Point(runs.Train, &runs.Point{Step: 2})
	if b, _ := os.ReadFile(f.path); err == nil || !strings.Contains(err.Error(), "no space left") || len(records(t, b)) != 3 {
		t.Errorf("%v; %d bytes", err, len(b))
	}
}

// TestEventsFollowNoLink: another user who puts a link in the place of a folder or an event file
// does not choose what is written.
func TestEventsFollowNoLink(t *testing.T) {
	away, at := t.TempDir(), time.Unix(1700000000, 0)
	diary := filepath.Join(away, "diary")
	fatal.If(t, os.WriteFile(diary, []byte("dear diary"), 0o600))
	dir := t.TempDir()
	fatal.If(t, os.Mkdir(filepath.Join(dir, "model"), 0o755))
	fatal.If(t, os.Symlink(away, filepath.Join(dir, "model", runs.Train)))
	if err := New(dir, at, 1).Point(runs.Train, &runs.Point{Step: 1}); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("a linked folder: %v", err)
	}
	for _, replace := range []bool{false, true} {
		folder := filepath.Join(t.TempDir(), "events")
		fatal.If(t, os.Mkdir(folder, 0o755))
		fatal.If(t, os.Symlink(diary, filepath.Join(folder, "events.out.tfevents.1700000000.wdlrun")))
		f, err := create(filepath.Dir(folder), "events", at, replace)
		fatal.If(t, err)
		fatal.If(t, f.close())
		if info, err := os.Lstat(f.path); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			t.Errorf("%s: %v, %v", f.path, info, err)
		}
	}
	if b, err := os.ReadFile(diary); err != nil || string(b) != "dear diary" {
		t.Errorf("the file that the links lead to: %q, %v", b, err)
	}
	if all, _ := os.ReadDir(away); len(all) != 1 {
		t.Errorf("the folder that the link leads to: %v", all)
	}
}

// TestGraphs: the graph of each kind of model is printed, its nodes have different names,
// and each node follows its inputs.
func TestGraphs(t *testing.T) {
	const features = `data: {train: [x.csv], header: true}
label: {field: y, positive: ["1"]}
features:
  - {field: a/b, encode: hash, table: t}
  - {field: a_b, encode: hash, table: t, deep: false}
  - {field: n, encode: raw}
crosses: [{of: [a/b, a_b], buckets: 100}]
`
	var b strings.Builder
	wideOnly := strings.NewReplacer("  - {field: n, encode: raw}\n", "", ", deep: false", "").Replace(features)
	for _, text := range []string{
		features + "model: {hidden: [4, 2], dropout: 0.5, batch_norm: true}\n",
		features + "model: {kind: deepfm, hidden: [4]}\n",
		features + "model: {kind: dcn_v2, wide: true, hidden: [4], cross: {layers: 2, structure: parallel}}\n",
		features + "model: {kind: xdeepfm, hidden: [4], cin: [3, 2]}\nlabels: [{field: z, threshold: 1}]\n",
		features + "model: {kind: masknet, hidden: [4], mask: {blocks: 2}}\n",
		wideOnly + "model: {deep: false}\n",
	} {
		c, err := config.Parse("c.yaml", []byte(text))
		fatal.If(t, err)
		c.Fill()
		def := decode(t, "GraphDef", graphOf(c))
		seen := map[string]bool{}
		node := regexp.MustCompile(`(?m)^  (name|input): "(.*)"$`)
		name := ""
		for _, m := range node.FindAllStringSubmatch(def, -1) {
			if m[1] == "input" {
				if !seen[m[2]] {
					t.Errorf("%s is an input of %s but does not precede it", m[2], name)
				}
				fmt.Fprintf(&b, " %s", m[2])
				continue
			}
			if name = m[2]; seen[name] {
				t.Errorf("two nodes have the name %s", name)
			}
			seen[name] = true
			fmt.Fprintf(&b, "\n%s", name)
		}
		b.WriteString("\n")
	}
	golden.Check(t, "graphs.txt", b.String())
}

// FuzzModel draws any configuration that can be parsed.
func FuzzModel(f *testing.F) {
	f.Add([]byte("data: {train: [x.csv], header: true}\nlabel: {field: y, positive: [a]}\nfeatures: [{field: f, encode: hash}, {field: g, encode: raw}]\nmodel: {kind: deepfm, hidden: []}\n"))
	f.Add([]byte("data: {train: [x.csv], fields: [f, y]}\nlabel: {field: y}\nfeatures: [{field: f, encode: id, table: t}]\ntables: [{name: t, dim: 3}]\nmodel: {kind: dcn_v2, wide: false}\n"))
	f.Fuzz(func(t *testing.T, yaml []byte) {
		w := New(t.TempDir(), time.Time{}, 1)
		w.Model(yaml)
	})
}
