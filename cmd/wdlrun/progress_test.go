package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// TestProgress: a command prints a line every two seconds from its beginning, also if a part
// reports nothing, and none after its end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &command.Program{Stdout: &b, Stderr: &b, Getenv: func(string) string { return "" }}
		p.Progress.SetWriter(&b)
		app := app(p)
		for _, c := range app.Commands {
			c.Subcommands = nil // without the work
			c.Action = func(*cli.Context) error { time.Sleep(1900 * time.Millisecond); return nil }
		}
		if err := app.Run([]string{"wdlrun", "export"}); err != nil {
			t.Fatal(err)
		}
		types := p.Progress.Read("types", 200e6)
		time.Sleep(200 * time.Millisecond) // 2.1 s
		types(50e6)
		time.Sleep(2 * time.Second) // 4.1 s
		p.Progress.Read("convert", 200e6)
		time.Sleep(2 * time.Second) // 6.1 s
		synctest.Wait()
		p.Progress.End()
		time.Sleep(time.Minute)
		if want := "types: 2 s\ntypes: 25 % of 200 MB\nconvert: 6 s\n"; b.String() != want {
			t.Errorf("got\n%swant\n%s", &b, want)
		}
	})
}
