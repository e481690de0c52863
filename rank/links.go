package rank

import (
	"fmt"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/machine/ports"
)

// Links is how the ranks of a job exchange data, as set by the launcher. It applies if a
// program makes no choice. The zero value sets nothing.
type Links struct {
	Transport string // a transport of package member; "": not set
	Encrypt   bool   // encrypt TCP connections
	Streams   int    // connections between two ranks; 0: not set
	Ports     string // ports on which ranks listen, such as 20000-20100; "": any
}

// LinksFromEnv reads WDLRUN_TRANSPORT, WDLRUN_ENCRYPT, WDLRUN_STREAMS and WDLRUN_PORTS,
// which must be the same on all ranks. An error names the variable and its value.
func LinksFromEnv(getenv func(string) string) (l Links, err error) {
	l.Transport = getenv("WDLRUN_TRANSPORT")
	if v := getenv("WDLRUN_ENCRYPT"); v != "" {
		if l.Encrypt, err = strconv.ParseBool(v); err != nil {
			return Links{}, fmt.Errorf("rank: WDLRUN_ENCRYPT=%q is neither true nor false", v)
		}
	}
	if v := getenv("WDLRUN_STREAMS"); v != "" {
		if l.Streams, err = strconv.Atoi(v); err != nil || l.Streams < 1 {
			return Links{}, fmt.Errorf("rank: WDLRUN_STREAMS=%q is not a number of connections", v)
		}
	}
	l.Ports = getenv("WDLRUN_PORTS")
	if _, err := ports.Parse(l.Ports); err != nil {
		return Links{}, fmt.Errorf("rank: WDLRUN_PORTS=%w", err)
	}
	return l, nil
}
