package jobs

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// joiner is the variable that makes the test binary a rank of a user's program: see joined.
const joiner = "WDLRUN_TESTS_JOINER"

// joined joins the job as a user's program does and prints the transport. Rank 1 requires
// encryption, so the group only forms if the launcher of rank 0 requests it too.
func joined() error {
	world, _, err := rank.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	m, err := member.Join(context.Background(), os.Getenv, member.Options{Encrypt: world.Rank == 1})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Println(m.Transport)
	return m.Done(nil)
}

// TestLinksOfAnyProgram: the launch flags about links also apply to a user's program.
func TestLinksOfAnyProgram(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, x := range []struct {
		flags, want string
		forms       bool
	}{
		{"-transport tcp -encrypt", "[0] tcp\n[1] tcp\n", true},
		{"-encrypt -streams 2", "[0] ", true}, // the ranks use shared memory
		{"-transport tcp", "choice of encryption", false},
	} {
		cmd := command(t, t.TempDir(), append(strings.Fields("-np 2 -oversubscribe "+x.flags), os.Args[0])...)
		cmd.Env = append(os.Environ(), joiner+"=1")
		fatal.If(t, cmd.Start())
		o := end(t, cmd)
		said := o.stdout + o.stderr
		if strings.HasPrefix(o.stdout, "[1]") { // the order of the ranks' lines is arbitrary
			lines := strings.SplitAfter(o.stdout, "\n")
			said = lines[1] + lines[0] + o.stderr
		}
		if (o.code == 0) != x.forms || !strings.Contains(said, x.want) {
			t.Errorf("%s: exit code %d, want a group: %t and %q\n%s%s", x.flags, o.code, x.forms, x.want, o.stdout, o.stderr)
		}
	}
}

// TestPorts: ranks listen only on ports of -ports. If all are in use, they report an error.
func TestPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer taken.Close()
	p := taken.Addr().(*net.TCPAddr).Port
	o := run(t, t.TempDir(), "-ports", fmt.Sprintf("%d-%d", p, p), "train")
	if want := fmt.Sprintf("all ports within %d-%d are in use; give a larger range with -ports", p, p); o.code != 1 || !strings.Contains(o.stderr, want) {
		t.Errorf("exit code %d, want %q:\n%s", o.code, want, o.stderr)
	}
}
