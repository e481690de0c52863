package data

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
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

// Every file that cannot be read to its end is named, the others are checked, and columns that some of these do not
// have are named.
func TestCheckNamesEveryBrokenFile(t *testing.T) {
	const good = "y,x,z\n1,2,a\n0,3,b\n1,5,a\n"
	dir := datatest.Files(t, ".csv", []byte(good), []byte(good), []byte("y,x\n1,2\n0,3\n"), []byte(good))
	for _, name := range []string{"part-00.csv", "part-03.csv"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name+".gz"), datatest.Pack(t, ".gz", []byte(good))[:30], 0o644))
		fatal.If(t, os.Remove(filepath.Join(dir, name)))
	}
	config := datatest.Write(t, "c.yaml", "data: {train: ["+dir+"], header: true}\nlabel: {field: y}\nfeatures: [{field: x, encode: vocabulary}, {field: z, encode: vocabulary}]\n")
	for _, args := range [][]string{{"-config", config}, {"-config", config, "-json"}} {
		var out, log bytes.Buffer
		p := &command.Program{Stdout: &out, Stderr: &log, Getenv: func(string) string { return "" }}
		err := (&cli.App{Commands: []*cli.Command{checkCommand(p)}}).Run(append([]string{"wdlrun", "check"}, args...))
		all := log.String() + out.String()
		for _, want := range []string{"part-00.csv.gz: ", "part-03.csv.gz: ", "2 files of 4 cannot be read", "column z is not in 1 of 2 files, such as " + filepath.Join(dir, "part-02.csv")} {
			if err == nil || strings.Count(all, want) != 1 {
				t.Errorf("%q: no %q: %v\n%s", args, want, err, all)
			}
		}
		if !strings.Contains(all, "5 good, 0 bad") && !strings.Contains(all, `"records":5,"bad":0`) {
			t.Errorf("%q: the others are not checked:\n%s", args, all)
		}
	}
}
