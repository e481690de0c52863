package command

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestParsed: arguments of a command are parsed without it; an unknown command and an unknown flag are errors.
func TestParsed(t *testing.T) {
	app := &cli.App{Commands: []*cli.Command{{Name: "join", Flags: []cli.Flag{&cli.StringFlag{Name: "key"}}}}}
	app.Setup()
	if c, err := Parsed(app, "join", []string{"-key=id"}); err != nil || c.String("key") != "id" {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]string{"joni": `there is no command "joni"`, "join": "wdlrun join --help"} {
		if _, err := Parsed(app, name, []string{"-keys=id"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
