package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// program is a stand-in for wdlrun: it prints how it was started and what it reads.
const program = "#!/bin/sh\necho started with $*\ncat\n"

// client makes an ssh client of a shell script, whose $1 is the host and $2 the command.
func client(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client")
	text = "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n" + text + "\n"
	fatal.If(t, os.WriteFile(path, []byte(text), 0o700))
	syscall.ForkLock.RLock() // a child of a parallel test has it open until it executes
	syscall.ForkLock.RUnlock()
	return path
}

// image is the stand-in for wdlrun, to be sent.
func image(t *testing.T) *Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wdlrun")
	fatal.If(t, os.WriteFile(path, []byte(program), 0o700))
	i, err := NewImage(path)
	fatal.If(t, err)
	return i
}

// begin starts the stand-in through a client.
func begin(t *testing.T, words string, ship Ship, i *Image, path string, limit time.Duration) (*Process, error) {
	t.Helper()
	s, err := NewSSH(words, ship, i, path, (*exec.Cmd).Start, io.Discard)
	fatal.If(t, err)
	s.Timeout = limit
	p, err := s.Start(context.Background(), "c")
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// speaks checks that the stand-in has started and reads what it is sent.
func speaks(t *testing.T, p *Process) {
	t.Helper()
	fmt.Fprintln(p, "hello")
	p.in.Close()
	got, err := io.ReadAll(p)
	if err != nil || string(got) != "started with "+Word+"\nhello\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestShells sends the binary and starts it by each shell that may be a login shell, twice:
// the second time it is there.
func TestShells(t *testing.T) {
	found := 0
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "tcsh", "fish", "busybox sh"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(strings.Fields(shell)[0]); err != nil {
				t.Skip(err)
			}
			found++
			home := t.TempDir()
			c := client(t, fmt.Sprintf("exec env -i HOME=%s PATH=$PATH %s -c \"$2\"", home, shell))
			i := image(t)
			for _, what := range []string{"absent", "present"} {
				p, err := begin(t, c, Auto, i, "", 0)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				speaks(t, p)
			}
			if files, err := os.ReadDir(filepath.Join(home, ".cache", "wdlrun", "bin")); err != nil || len(files) != 1 || files[0].Name() != i.Hash {
				t.Errorf("%v, %v", files, err)
			}
		})
	}
	if found < 2 {
		t.Errorf("only %d shells found", found)
	}
}

// TestScriptIsPlain: within its quotes the script contains nothing that a shell reads
// differently.
func TestScriptIsPlain(t *testing.T) {
	for _, ship := range []Ship{Auto, Always, Never} {
		s := script(ship, strings.Repeat("0a", 32), "nonce", "/opt/wdlrun")
		inside, ok := strings.CutPrefix(s, "exec sh -c '")
		inside, end := strings.CutSuffix(inside, "'")
		if !ok || !end || strings.ContainsAny(inside, "'\"\\!\n") {
			t.Errorf("%s: %s", ship, s)
		}
	}
}

// TestLoginErrors: each failure of a login names the host, the cause and what to do.
func TestLoginErrors(t *testing.T) {
	i := image(t)
	run := `exec sh -c "$2"`
	for _, x := range []struct {
		name, script string
		ship         Ship
		want         string
	}{
		{"login failed", "echo 'me@c: Permission denied (publickey).' >&2; exit 255", Auto, `^login failed: me@c: Permission denied \(publickey\).; try: \S+client c true$`},
		{"host key changed", "echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2; echo 'Host key verification failed.' >&2; exit 255", Auto, `^its host key has changed: .*; if that is expected, remove the old key: ssh-keygen -R c$`},
		{"host key unknown", "echo 'Host key verification failed.' >&2; exit 255", Auto, `its host key is unknown: .*; log in once to accept it: \S+client c true$`},
		{"unknown host", "echo 'ssh: Could not resolve hostname c: Name or service not known' >&2; exit 255", Auto, `its name is unknown: ssh: Could`},
		{"no server", "echo 'ssh: connect to host c port 22: Connection refused' >&2; exit 255", Auto, `no ssh server answers there: .*refused; start sshd`},
		{"waits for a password", "exec sleep 100", Auto, `^no answer within 300ms: it may wait for a password; try: \S+client c true$`},
		{"prints without end", "exec yes", Auto, `its shell prints more than 1048576 bytes when it starts, such as "y\\n": its start-up files`},
		{"prints and ends", "echo This account is currently not available.", Auto, `its login shell ended without running the command, after 41 bytes of output`},
		{"killed", "kill -9 $$", Auto, `login failed: client was killed by signal 9; try:`},
		{"read-only home", "HOME=/proc; export HOME; " + run, Auto, `wdlrun cannot make ~/.cache/wdlrun/bin there: .*mkdir.*; make ~/.cache/wdlrun/bin writable there, or install`},
		{"no home", "HOME=/nonexistent; export HOME; " + run, Auto, `its home directory cannot be entered: .*nonexistent`},
		{"cannot unpack", "mkdir -p $HOME/b; printf '#!/bin/sh\\nexit 1\\n' >$HOME/b/gzip; chmod +x $HOME/b/gzip; PATH=$HOME/b:$PATH; export PATH; " + run, Always, `wdlrun cannot be stored in ~/.cache/wdlrun/bin there`},
		{"another CPU", "mkdir -p $HOME/b; printf '#!/bin/sh\\necho riscv64\\n' >$HOME/b/uname; chmod +x $HOME/b/uname; PATH=$HOME/b:$PATH; export PATH; " + run, Auto, `it runs riscv64 on riscv64, this wdlrun is built for ` + runtime.GOOS},
		{"not installed", "PATH=/nonexistent; " + run, Never, `login failed|wdlrun is neither at /opt/none/wdlrun nor in PATH there`},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			limit := 20 * time.Second
			if x.name == "waits for a password" {
				limit = 300 * time.Millisecond
			}
			_, err := begin(t, client(t, "HOME="+home+"; export HOME; "+x.script), x.ship, i, "/opt/none/wdlrun", limit)
			if err == nil || !regexp.MustCompile(x.want).MatchString(err.Error()) {
				t.Errorf("got  %v\nwant %s", err, x.want)
			}
			if left, _ := filepath.Glob(filepath.Join(home, ".cache", "wdlrun", "bin", ".*")); len(left) > 0 {
				t.Errorf("%q were not removed", left)
			}
		})
	}
}

// TestMissingLoader: a dynamic program whose loader is missing is rejected, as wdlrun and as a
// program of the user.
func TestMissingLoader(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	fatal.If(t, err)
	if loader("/bin/sh") == "" || !bytes.Contains(shell, []byte("/ld-linux")) {
		t.Skip("the shell of this system is not a dynamic ELF executable")
	}
	path := filepath.Join(t.TempDir(), "wdlrun")
	fatal.If(t, os.WriteFile(path, bytes.ReplaceAll(shell, []byte("/ld-linux"), []byte("/ld-wrong")), 0o700))
	i, err := NewImage(path)
	fatal.If(t, err)
	const want = "this wdlrun needs the C library of its machine: build it with CGO_ENABLED=0 go build"
	p, err := begin(t, client(t, "HOME="+t.TempDir()+"; export HOME; exec sh -c \"$2\""), Auto, i, "", 0)
	fatal.If(t, err)
	if why := p.Why(); !strings.Contains(why, want) {
		t.Errorf("got  %s\nwant %s", why, want)
	}
	if err := CheckLoader(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/ld-wrong") {
		t.Errorf("a loader that is missing: %v", err)
	}
	script := filepath.Join(filepath.Dir(path), "script")
	fatal.If(t, os.WriteFile(script, []byte("#! /bin/sh -e\n"), 0o700))
	for _, path := range []string{"/bin/sh", image(t).Path, script} {
		if err := CheckLoader(path); err != nil {
			t.Error(err)
		}
	}
}

// TestStandardErrorOfAHost: lines are passed on after the host process has sent its first bytes.
// Earlier ones, which may be the shell's, only explain the end.
func TestStandardErrorOfAHost(t *testing.T) {
	for first, want := range map[string]string{"": "", "echo hello": "wdlrun: host c: bad news\n"} {
		path := filepath.Join(t.TempDir(), "wdlrun")
		fatal.If(t, os.WriteFile(path, []byte("#!/bin/sh\n"+first+"\nread line\necho bad news >&2\nexit 126\n"), 0o700))
		i, err := NewImage(path)
		fatal.If(t, err)
		var said bytes.Buffer // read after the end
		s, err := NewSSH(client(t, "HOME="+t.TempDir()+"; export HOME; exec sh -c \"$2\""), Auto, i, "", (*exec.Cmd).Start, &said)
		fatal.If(t, err)
		p, err := s.Start(context.Background(), "c")
		fatal.If(t, err)
		if first != "" {
			if _, err := io.ReadFull(p, make([]byte, len("hello\n"))); err != nil {
				t.Error(err)
			}
		}
		fmt.Fprintln(p, "continue")
		if why := p.Why(); !strings.Contains(why, "cannot be executed there: bad news") || said.String() != want {
			t.Errorf("after %q: printed %q, want %q: %s", first, said.String(), want, why)
		}
		p.Close()
	}
}

// TestNoise: what a login shell prints before the script runs does no harm, also without
// an end of line, or with a mark of another login.
func TestNoise(t *testing.T) {
	c := client(t, `printf 'welcome\nwdlrun-host other run Linux x86_64\nlast login: '; HOME=`+t.TempDir()+`; export HOME; exec sh -c "$2"`)
	p, err := begin(t, c, Auto, image(t), "", 0)
	fatal.If(t, err)
	speaks(t, p)
}

// TestFlags: ssh gets the option not to ask for a password, another client does not.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"), 0o700))
	for words, want := range map[string]string{
		dir + "/ssh -p 2222": dir + "/ssh -p 2222 -T -o BatchMode=yes -o ConnectTimeout=10",
		"sh -x":              "sh -x",
	} {
		s, err := NewSSH(words, Auto, image(t), "", nil, nil)
		if err != nil || strings.Join(s.Command, " ") != want || s.kind.try != words {
			t.Errorf("%q: %v, %v", words, s, err)
		}
	}
	for words, ship := range map[string]Ship{"": Auto, "nosuchclient": Auto, "sh": "often"} {
		if _, err := NewSSH(words, ship, image(t), "", nil, nil); err == nil {
			t.Errorf("%q and %q are accepted", words, ship)
		}
	}
}
