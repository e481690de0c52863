package online

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/export"
)

// TestFailedVersion: the newest version that the server cannot load is named while it is newer than the one that is served.
func TestFailedVersion(t *testing.T) {
	one := func(n int, state, message string) string {
		return fmt.Sprintf(`{"version": "%d", "state": %q, "status": {"error_code": "X", "error_message": %q}}`, n, state, message)
	}
	versions := []export.Listed{{Version: 7}, {Version: 8}, {Version: 9}}
	served, refused, damaged := one(7, "AVAILABLE", ""), one(8, "END", "refused"), one(9, "END", "serve: ctr/9: the checksum differs")
	for _, x := range []struct {
		status string
		served int64
		want   string
	}{
		{served, 7, ""},
		{damaged + "," + refused + "," + served, 7, "version 9 cannot be served: serve: ctr/9: the checksum differs"},
		{refused + "," + served, 7, "version 8 cannot be served: refused"},
		{damaged, 0, "version 9 cannot be served: "},
		{damaged + "," + refused, 9, ""},
		{one(10, "END", "is gone") + "," + one(8, "END", ""), 7, ""},
		{"no JSON", 7, ""},
	} {
		got := ""
		if f := failedOf([]byte(`{"model_version_status": [`+x.status+`]}`), x.served, versions); f != nil {
			got = f.line()
		}
		if (got == "") != (x.want == "") || !strings.HasPrefix(got, x.want) {
			t.Errorf("%s, served %d: %q, want %q", x.status, x.served, got, x.want)
		}
	}
}

// TestStepOfAVersion: the status shows at least the step of the newest version. Versions of an earlier training and
// rollbacks do not change it.
func TestStepOfAVersion(t *testing.T) {
	logged, two := time.Unix(100, 0), int64(2)
	version := func(step int64, after time.Duration) export.Listed {
		return export.Listed{Version: step, Step: step, Taken: logged.Add(after).UnixNano()}
	}
	rollback := version(20, time.Second)
	rollback.Rollback = &two
	for i, x := range []struct {
		logged   time.Time
		versions []export.Listed
		want     int64
	}{
		{logged, nil, 10},
		{logged, []export.Listed{version(8, -1), version(14, 1)}, 14},
		{logged, []export.Listed{version(14, 1), rollback}, 14},
		{logged, []export.Listed{version(9, 1)}, 10},
		{logged, []export.Listed{version(900, -time.Hour)}, 10},
		{time.Time{}, []export.Listed{version(900, -time.Hour)}, 10},
	} {
		w := &loopWatch{logged: x.logged}
		w.fresh.train(trainedAt{10, 320})
		w.state.Step, w.state.Trained = 10, 320
		w.advance(x.versions)
		if w.state.Step != x.want || w.state.Trained != 32*x.want {
			t.Errorf("%d: step %d with %d samples, want %d", i, w.state.Step, w.state.Trained, x.want)
		}
	}
}

// TestAddresses: the metrics of a server are read from the address of -admin or, without it, of REST requests.
func TestAddresses(t *testing.T) {
	for flags, want := range map[string]string{
		"{}":                               "127.0.0.1:8501 127.0.0.1:8501",
		"{host: 0.0.0.0, rest-port: 9}":    "127.0.0.1:9 127.0.0.1:9",
		"{rest_api_port: 9, host: x}":      "x:9 x:9",
		"{rest-port: 0, admin: '[::1]:4'}": "127.0.0.1:0 [::1]:4",
		"{admin: ':8502', host: 10.0.0.1}": "10.0.0.1:8501 127.0.0.1:8502",
	} {
		var serve yaml.MapSlice
		if err := yaml.Unmarshal([]byte(flags), &serve); err != nil {
			t.Fatal(err)
		}
		if rest, metrics := addressesOf(serve); rest+" "+metrics != want {
			t.Errorf("%s: %s %s, want %s", flags, rest, metrics, want)
		}
	}
}

// TestPartsEndInTheirTime: the program does not end before its parts, after the time that others have.
func TestPartsEndInTheirTime(t *testing.T) {
	o := &online{p: &command.Program{}}
	o.endAtOnce()()
	if !o.p.OwnsRanks.Load() {
		t.Error("the program ends after StartGrace")
	}
}

// TestRejectedIsNamed: the line names how many records and files the join has rejected, and where they are.
func TestRejectedIsNamed(t *testing.T) {
	w := loopWatch{joined: "samples.state/status.json"}
	for want, x := range map[string]loopState{
		"": {},
		"2 records rejected: see samples.state/rejected":                  {Rejected: 2},
		"1 record and 2 whole files rejected: see samples.state/rejected": {Rejected: 3, BadFiles: 2},
	} {
		if w.state = x; w.rejected() != want {
			t.Errorf("%q, want %q", w.rejected(), want)
		}
	}
}
