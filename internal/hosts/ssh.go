package hosts

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// SSH starts the host process through the system's ssh client, with the user's own
// configuration and keys.
type SSH struct {
	Command []string // ssh and its flags, before the host
	Ship    Ship
	Image   *Image // of this program
	Path    string // of the installed binary, for Never
	Run     Run
	Stderr  io.Writer     // for whole lines
	Timeout time.Duration // of a login; 0: loginTime

	logins logins
	kind   loginKind
}

// loginKind holds the differences between ssh and srun.
type loginKind struct {
	args   func(host, script string) []string // after the Command
	env    func([]string) []string            // environment of the Command; nil: the one of this process
	try    string                             // a command line that a user can try; the host follows
	fails  string                             // what has failed, if nothing else is known
	silent string                             // possible reason of a missing answer
	causes []cause
}

const (
	// loginTime bounds a login, and a pause in sending the binary.
	loginTime = 30 * time.Second

	// maxNoise bounds the bytes that a shell may print before the mark.
	maxNoise = 1 << 20
)

// NewSSH returns a Starter. words are the ssh client and its flags, such as "ssh -p 2222".
func NewSSH(words string, ship Ship, image *Image, path string, run Run, stderr io.Writer) (*SSH, error) {
	command := strings.Fields(words)
	if len(command) == 0 {
		return nil, errors.New("hosts: the ssh command is empty; give one, such as -ssh \"ssh -p 2222\"")
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, fmt.Errorf("hosts: %w: install an ssh client, or name one with -ssh", err)
	}
	if !slices.Contains([]Ship{Auto, Always, Never}, ship) {
		return nil, fmt.Errorf("hosts: -ship %q: choose auto, always or never", ship)
	}
	if filepath.Base(command[0]) == "ssh" { // another client may not have these
		command = append(command, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
	}
	args := func(host, script string) []string { return []string{host, script} }
	kind := loginKind{args: args, try: strings.Join(strings.Fields(words), " "), fails: "login failed", silent: "it may wait for a password", causes: slices.Concat(sshCauses, diskCauses)}
	return newSSH(command, ship, image, path, run, stderr, kind), nil
}

func newSSH(command []string, ship Ship, image *Image, path string, run Run, stderr io.Writer, kind loginKind) *SSH {
	if !plain().MatchString(path) {
		path = "wdlrun"
	}
	return &SSH{Command: command, Ship: ship, Image: image, Path: path, Run: run, Stderr: stderr, logins: newLogins(), kind: kind}
}

// Start implements Starter.
func (s *SSH) Start(ctx context.Context, host string) (p *Process, err error) {
	err = s.logins.do(ctx, func() error {
		p, err = s.login(ctx, host)
		return err
	})
	return p, err
}

// login starts the host process on a host.
func (s *SSH) login(ctx context.Context, host string) (*Process, error) {
	nonce := strings.ToLower(rand.Text())
	args := append(slices.Clone(s.Command[1:]), s.kind.args(host, script(s.Ship, s.Image.Hash, nonce, s.Path))...)
	cmd := exec.Command(s.Command[0], args...)
	if s.kind.env != nil {
		cmd.Env = s.kind.env(cmd.Environ())
	}
	p, err := start(cmd, host, s.Run, s.Stderr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	if err := s.boot(p, nonce); err != nil {
		p.Kill()
		p.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	// The script announces the host process before the shell executes it.
	p.known = func() string { return s.notExecuted(p.code(), p.stderr.last()) }
	return p.Process, nil
}

// boot waits until the host process follows, and sends the binary if it is requested.
func (s *SSH) boot(p *login, nonce string) error {
	limit := s.Timeout
	if limit == 0 {
		limit = loginTime
	}
	p.stdout.SetReadDeadline(time.Now().Add(limit))
	lines := bufio.NewReaderSize(p.stdout, 64<<10)
	noise, sent := 0, false
	for {
		line, err := lines.ReadString('\n')
		words := strings.Fields(line)
		if err != nil {
			return s.explain(p, limit, noise)
		}
		if len(words) != 5 || words[0] != mark || words[1] != nonce {
			if noise += len(line); noise > maxNoise {
				return fmt.Errorf("its shell prints more than %d bytes when it starts, such as %.80q: its start-up files (.bashrc) must print nothing in a session without a terminal", maxNoise, line)
			}
			continue
		}
		if s.Ship != Never {
			if err := SamePlatform(words[3], words[4]); err != nil {
				return err
			}
		}
		switch {
		case words[2] == "run":
			p.stdout.SetReadDeadline(time.Time{})
			p.out = lines
			return nil
		case words[2] == "need" && !sent:
			sent = true
			if err := s.send(p, limit); err != nil {
				return err
			}
		}
	}
}

// send sends the binary.
func (s *SSH) send(p *login, limit time.Duration) error {
	packed, err := s.Image.Packed()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p, "%d\n", len(packed)); err != nil {
		return s.explain(p, limit, 0)
	}
	for len(packed) > 0 {
		n := min(len(packed), 64<<10)
		p.stdin.SetWriteDeadline(time.Now().Add(limit))
		if _, err := p.Write(packed[:n]); err != nil {
			return s.explain(p, limit, 0)
		}
		packed = packed[n:]
	}
	p.stdin.SetWriteDeadline(time.Time{})
	p.stdout.SetReadDeadline(time.Now().Add(limit))
	return nil
}

// SamePlatform compares the platform of a host with the platform of this binary. Names are
// from uname or from Go.
func SamePlatform(system, cpu string) error {
	cpus := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}
	there := strings.ToLower(system)
	if name, ok := cpus[cpu]; ok {
		cpu = name
	}
	if there == runtime.GOOS && cpu == runtime.GOARCH {
		return nil
	}
	return fmt.Errorf("it runs %s on %s, this wdlrun is built for %s on %s: install a wdlrun built for it there and give -ship never, or leave the host out",
		there, cpu, runtime.GOOS, runtime.GOARCH)
}

// cause maps a message of a failed client to its meaning and the remedy, in which HOST stands
// for the host and SSH for the client.
type cause struct{ prints, means, next string }

// sshCauses are causes of ssh, diskCauses causes of the script.
var sshCauses = []cause{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed", "if that is expected, remove the old key: ssh-keygen -R HOST"},
	{"Host key verification failed", "its host key is unknown", "log in once to accept it: SSH HOST true"},
	{"Permission denied", "login failed", "try: SSH HOST true"},
	{"Too many authentication failures", "login failed", "try: SSH HOST true"},
	{"Could not resolve hostname", "its name is unknown", "check -H, or try: SSH HOST true"},
	{"Connection refused", "no ssh server answers there", "start sshd there, or name its port: -ssh \"ssh -p 2222\""},
	{"Connection timed out", "it does not answer", "check that it is up: ping HOST"},
	{"Operation timed out", "it does not answer", "check that it is up: ping HOST"},
	{"No route to host", "it cannot be reached", "check that it is up: ping HOST"},
	{"Network is unreachable", "it cannot be reached", "check the network of this machine"},
}

var diskCauses = []cause{
	{"No space left on device", "its disk is full", "make room in ~/.cache/wdlrun there, or install the same wdlrun there and give -ship never"},
	{"Disk quota exceeded", "its disk quota is used up", "make room in ~/.cache/wdlrun there, or install the same wdlrun there and give -ship never"},
}

// explain returns why a login failed.
func (s *SSH) explain(p *login, limit time.Duration, noise int) error {
	code := p.code()
	if code < 0 && p.stderr.text() == "" {
		select {
		case <-p.ended:
		default:
			return fmt.Errorf("%w within %s: %s; try: %s %s true", errSilent, limit, s.kind.silent, s.kind.try, p.host)
		}
	}
	printed, last := p.stderr.text(), p.stderr.last()
	for _, c := range s.kind.causes {
		if i := strings.Index(printed, c.prints); i >= 0 {
			line, _, _ := strings.Cut(printed[i:], "\n")
			if j := strings.LastIndexByte(printed[:i], '\n'); j < i {
				line, _, _ = strings.Cut(printed[j+1:], "\n")
			}
			next := strings.NewReplacer("HOST", p.host, "SSH", s.kind.try).Replace(c.next)
			return fmt.Errorf("%s: %s; %s", c.means, strings.Trim(line, "@ \r\t"), next)
		}
	}
	install := fmt.Sprintf("make ~/.cache/wdlrun/bin writable there, or install the same wdlrun at %s there and give -ship never", s.Path)
	switch code {
	case noHome:
		return fmt.Errorf("its home directory cannot be entered: %s; %s", last, install)
	case noFolder:
		return fmt.Errorf("wdlrun cannot make ~/.cache/wdlrun/bin there: %s; %s", last, install)
	case noReceive:
		return fmt.Errorf("wdlrun cannot be stored in ~/.cache/wdlrun/bin there: %s; %s", last, install)
	}
	if cause := s.notExecuted(code, last); cause != "" {
		return errors.New(cause)
	}
	if noise > 0 && code == 0 {
		return fmt.Errorf("its login shell ended without running the command, after %d bytes of output; try: %s %s true", noise, s.kind.try, p.host)
	}
	return fmt.Errorf("%s: %s; try: %s %s true", s.kind.fails, p.Why(), s.kind.try, p.host)
}

// notExecuted explains the exit code of a shell that could not execute the host process. It
// returns "" for other exit codes.
func (s *SSH) notExecuted(code int, last string) string {
	switch {
	case code == 126:
		return fmt.Sprintf("wdlrun cannot be executed there: %s; if the file system is mounted noexec, install the same wdlrun elsewhere and give -ship never", last)
	case code == 127 && s.Ship == Never:
		return fmt.Sprintf("wdlrun is neither at %s nor in PATH there: %s; install it, or leave -ship out", s.Path, last)
	case code == 127 && loader(s.Image.Path) != "":
		return fmt.Sprintf("wdlrun cannot be executed there: %s; this wdlrun needs the C library of its machine: build it with CGO_ENABLED=0 go build", last)
	}
	return ""
}
