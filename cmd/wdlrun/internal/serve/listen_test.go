package serve

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestABusyPort: the error names the flag with which another port is given.
func TestABusyPort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	for flag, free := range map[string]string{"port": "rest-port", "rest-port": "port"} {
		app := &cli.App{Flags: Command(nil).Flags, Writer: io.Discard, ErrWriter: io.Discard, Action: func(c *cli.Context) error {
			_, err := listen(c, nil)
			return err
		}}
		err := app.Run([]string{"serve", fmt.Sprint("-", flag, "=", port), "-" + free + "=0"})
		what := map[string]string{"port": "gRPC", "rest-port": "REST"}[flag]
		want := fmt.Sprintf(": another program listens there: give another port, -%s N, or -%s 0 for no %s", flag, flag, what)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("serve: -%s %d: ", flag, port)) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("-%s: %v", flag, err)
		}
	}
}
