package rank_test

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/rank"
)

// TestLinksFromEnv: LinksFromEnv parses the variables and rejects invalid ones.
func TestLinksFromEnv(t *testing.T) {
	for _, x := range []struct {
		env   map[string]string
		want  rank.Links
		fault string
	}{
		{nil, rank.Links{}, ""},
		{map[string]string{"WDLRUN_TRANSPORT": "tcp", "WDLRUN_ENCRYPT": "true", "WDLRUN_STREAMS": "2", "WDLRUN_PORTS": "20000-20100"}, rank.Links{Transport: "tcp", Encrypt: true, Streams: 2, Ports: "20000-20100"}, ""},
		{map[string]string{"WDLRUN_ENCRYPT": "false"}, rank.Links{}, ""},
		{map[string]string{"WDLRUN_ENCRYPT": "please"}, rank.Links{}, `WDLRUN_ENCRYPT="please"`},
		{map[string]string{"WDLRUN_PORTS": "0-9"}, rank.Links{}, `WDLRUN_PORTS="0-9"`},
		{map[string]string{"WDLRUN_STREAMS": "0"}, rank.Links{}, `WDLRUN_STREAMS="0"`},
	} {
		got, err := rank.LinksFromEnv(func(name string) string { return x.env[name] })
		if got != x.want || (err == nil) != (x.fault == "") || err != nil && !strings.Contains(err.Error(), x.fault) {
			t.Errorf("%v: %+v, %v; want %+v, %q", x.env, got, err, x.want, x.fault)
		}
	}
}
