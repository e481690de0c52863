package hosts

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// Ship is the condition under which the binary is sent to a host.
type Ship string

// Conditions.
const (
	Auto   Ship = "auto"   // if the host does not have it
	Always Ship = "always" // even if the host has it
	Never  Ship = "never"  // the installed binary must be the same
)

// Word is the argument that starts the host process.
const Word = "__host"

// Exit codes of the script.
const (
	noHome    = 81 // cannot change to the home directory
	noFolder  = 82 // cannot make or enter the folder of binaries
	noReceive = 83 // cannot receive or store the binary
)

// mark begins a line of the script. Output of the shell itself precedes it.
const mark = "wdlrun-host"

// script returns the command line for another host's login shell: one line that bash, dash,
// zsh, tcsh, fish and busybox interpret alike. It therefore has no quote, backslash or
// exclamation mark inside the quotes. If it needs the binary, it prints the line
// "wdlrun-host NONCE need OS CPU", and reads a line with the compressed size and then that
// many bytes. It prints "wdlrun-host NONCE run OS CPU" when the host process follows.
func script(ship Ship, hash, nonce, path string) string {
	say := fmt.Sprintf("m() { echo; echo %s %s $1 $(uname -s) $(uname -m); }; umask 077; ", mark, nonce)
	if ship == Never {
		return fmt.Sprintf("exec sh -c '%sm run; if [ -x %[2]s ]; then exec %[2]s %[3]s; else exec wdlrun %[3]s; fi'", say, path, Word)
	}
	present := "[ -x " + hash + " ]"
	if ship == Always {
		present = "false"
	}
	return fmt.Sprintf("exec sh -c '%scd || exit %d; mkdir -p .cache/wdlrun/bin && cd .cache/wdlrun/bin || exit %d; "+
		"if %s; then :; else m need; c() { rm -f .%[5]s; }; trap c 0; trap exit 1 2 15; read n; "+
		"head -c $n | gzip -dc >.%[5]s && chmod 700 .%[5]s && mv -f .%[5]s %[6]s || exit %[7]d; trap - 0 1 2 15; fi; m run; exec ./%[6]s %[8]s'",
		say, noHome, noFolder, present, nonce, hash, noReceive, Word)
}

// plain matches a path that a shell does not interpret.
var plain = pattern.Lazy(`^[A-Za-z0-9_./+@%,:-]+$`)
