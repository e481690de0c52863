package data

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
)

// Files without records are named once, with and without a configuration.
func TestCheckNamesFilesWithoutRecords(t *testing.T) {
	dir := datatest.Files(t, ".csv", []byte("y,x\n1,2\n0,3\n1,5\n"), []byte("y,x\n"), nil)
	config := datatest.Write(t, "c.yaml", "data: {train: ["+dir+"], header: true}\nlabel: {field: y}\nfeatures: [{field: x, encode: vocabulary}]\n")
	for _, args := range [][]string{{dir}, {"-config", config}} {
		var out, log bytes.Buffer
		p := &command.Program{Stdout: &out, Stderr: &log, Getenv: func(string) string { return "" }}
		err := (&cli.App{Commands: []*cli.Command{checkCommand(p)}}).Run(append([]string{"wdlrun", "check"}, args...))
		want := "wdlrun: left out, because there are no records in them: " + filepath.Join(dir, "part-02.csv") + ", " + filepath.Join(dir, "part-01.csv") + "\n"
		if err != nil || strings.Count(log.String(), want) != 1 || !strings.Contains(out.String(), "3 good, 0 bad") {
			t.Errorf("%q: %v\n%s%s", args, err, &log, &out)
		}
	}
}
