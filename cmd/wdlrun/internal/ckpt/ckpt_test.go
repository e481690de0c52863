package ckpt

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestShowOfAnotherProgram: the contents of a checkpoint that another program has written are shown, without the progress
// of a training.
func TestShowOfAnotherProgram(t *testing.T) {
	root := t.TempDir()
	w, err := checkpoint.Create(root, 5, 0, 1)
	fatal.If(t, err)
	fatal.If(t, w.Section("table/a/0", func(w io.Writer) error { _, err := w.Write([]byte("rows")); return err }))
	part, err := w.Close()
	fatal.If(t, err)
	fatal.If(t, checkpoint.Commit(root, checkpoint.Manifest{Step: 5, Files: []checkpoint.File{part}}))
	var out bytes.Buffer
	p := &command.Program{Stdout: &out, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	err = (&cli.App{Commands: []*cli.Command{Command(p)}}).Run([]string{"wdlrun", "ckpt", "show", checkpoint.Dir(root, 5)})
	if err != nil || !strings.HasPrefix(out.String(), "step 5, written ") || !strings.Contains(out.String(), "table/a") {
		t.Errorf("%v\n%s", err, &out)
	}
}
