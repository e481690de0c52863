package publish

import (
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTheCheckpointBeingReadIsHeld: the last checkpoint is held, and none if there is none.
func TestTheCheckpointBeingReadIsHeld(t *testing.T) {
	p := &Publisher{Setup: Setup{RunDir: t.TempDir()}}
	if _, ok := p.holdLast(); ok || p.Reading() != 0 || (*Publisher)(nil).Reading() != 0 {
		t.Error("a checkpoint is held")
	}
	root := filepath.Join(p.RunDir, checkpoint.Folder)
	for step := int64(1); step < 3; step++ {
		w, err := checkpoint.Create(root, step, 0, 1)
		fatal.If(t, err)
		f, err := w.Close()
		fatal.If(t, err)
		fatal.If(t, checkpoint.Commit(root, checkpoint.Manifest{Step: step, Files: []checkpoint.File{f}}))
		if last, ok := p.holdLast(); !ok || last.Step != step || p.Reading() != step {
			t.Errorf("step %d, held %d, want %d", last.Step, p.Reading(), step)
		}
	}
	if x := p.fromCheckpoint(3); x.model != nil || x.err != nil || p.Reading() != 0 {
		t.Errorf("%+v, held %d", x, p.Reading())
	}
}
