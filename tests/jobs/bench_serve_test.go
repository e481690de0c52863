package jobs

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestBenchServe measures one echo server as the target and a second one as the floor. The
// command waits for the echo server that it started, so no process remains.
func TestBenchServe(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "r.csv", "user,item\n"+strings.Repeat("7,a\n8,b\n", 20))
	target := command(t, dir, "bench", "serve", "-echo", "40")
	in, err := target.StdinPipe()
	fatal.If(t, err)
	target.Stdout = nil
	out, err := target.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, target.Start())
	defer func() {
		in.Close()
		if err := target.Wait(); err != nil {
			t.Error(err)
		}
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	fatal.If(t, err)
	bench := "bench serve -model m -data r.csv -rows 10 -target " + strings.TrimSpace(address)
	o := must(t, dir, bench+" -rate 50 -arrivals constant -d 600ms -turn 300ms --json")
	var r struct {
		Turns       int
		AnswerBytes int `json:"answer_bytes"`
		Measured    struct{ Requests int }
		Echo        struct{ Requests int }
	}
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || r.Turns != 2 || r.AnswerBytes != 40 || r.Measured.Requests != 30 || r.Echo.Requests != 30 {
		t.Errorf("%v: %s", err, o.stdout)
	}
	if o := must(t, dir, bench+" -d 100ms -shared user"); !strings.Contains(o.stdout, "\nabove ") {
		t.Error(o.stdout)
	}
	for flags, want := range map[string]string{
		bench + " -arrivals bursts":                     "there are [poisson constant]",
		bench + " -shared gone":                         `"gone"`,
		bench + " -swap 5s":                             "-swap 5s needs -base DIR",
		bench + " -rate 0":                              "-rate 0",
		"bench serve -model m -data r.csv":              "-target is missing",
		"bench serve -target x -model m -data gone.csv": "gone.csv",
	} {
		if o := run(t, dir, strings.Fields(flags)...); o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: code %d, %s", flags, o.code, o.stderr)
		}
	}
}
