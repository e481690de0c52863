package runs

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/live"
)

func TokenFlag() cli.Flag {
	return &cli.StringFlag{Name: "web-token", Usage: "require the secret in `FILE` from requests to -web"}
}

// Secret reads the file of -web-token, "" if it is not given.
func Secret(c *cli.Context) (string, error) {
	path := command.PathOf(c, "web-token")
	if path == "" {
		return "", nil
	}
	const least, most = 16, 1 << 10
	b, err := regular.ReadFile(path, most)
	if b = bytes.TrimSpace(b); err == nil && len(b) < least {
		err = fmt.Errorf("%s has fewer than %d bytes: openssl rand -hex 16 makes a secret", path, least)
	}
	if err != nil {
		return "", fmt.Errorf("-web-token: %w", err)
	}
	return string(b), nil
}

// CheckWeb checks the flags of the page.
func CheckWeb(c *cli.Context) error {
	if c.IsSet("web-token") && !c.IsSet("web") {
		return errors.New("-web-token protects the page of -web: give -web ADDRESS too")
	}
	if c.IsSet("web") {
		if err := live.Check(c.String("web"), c.IsSet("web-token")); err != nil {
			return fmt.Errorf("-web: %w", err)
		}
	}
	return nil
}

// Reachable returns the address of a listener for a browser: a listener on all addresses has the
// name of this host.
func Reachable(at net.Addr, hostname func() (string, error)) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	name, err := hostname()
	if err != nil {
		return at.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(tcp.Port))
}
