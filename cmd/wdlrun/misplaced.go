package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// misplaced finds flags of a command before its name, where only launch flags are allowed,
// and proposes the correct command line. An executable takes none of these flags.
func misplaced(app *cli.App, args []string) error {
	all := programFlags(app.Commands)
	launch, moved, names, rest := splitFlags(args[1:], append(slices.Clip(app.Flags), all...), func(name string) bool {
		return command.Defined(app.Flags, name) || !command.Defined(all, name)
	})
	if len(names) == 0 || len(rest) == 0 {
		return nil // without a program the parser reports them
	}
	program, flags := programOf(app, rest)
	for _, name := range names {
		if !command.Defined(flags, name) {
			return fmt.Errorf("%s has no flag -%s: it belongs to %s", strings.Join(program, " "), name, strings.Join(owners(app.Commands, "", name), " and "))
		}
	}
	what, it := "is a flag", "it"
	if len(names) > 1 {
		what, it = "are flags", "them"
	}
	return fmt.Errorf("-%s %s of %s: put %s after the program: %s", strings.Join(names, " and -"), what, strings.Join(program, " "), it, commandLine(app, launch, program, moved, rest[len(program):]))
}

// oneProcess rejects launch flags before a command that starts no ranks, and proposes the
// command line without them.
func oneProcess(app *cli.App, args []string) error {
	_, _, _, rest := splitFlags(args[1:], app.Flags, nil)
	if len(rest) == 0 || app.Command(rest[0]) == nil {
		return nil
	}
	program, _ := programOf(app, rest)
	name, launch := strings.Join(program, " "), command.LaunchFlags()
	kept, _, idle, _ := splitFlags(args[1:], app.Flags, func(flag string) bool {
		return !command.Defined(launch, flag) || takesLaunchFlag(name, flag)
	})
	if len(idle) == 0 {
		return nil
	}
	have, it, more := "has", "it", ""
	if len(idle) > 1 {
		have, it = "have", "them"
	}
	if name == "serve" && slices.Contains(idle, "np") {
		more = "; -threads N computes N requests at once, and -reuse-port lets several servers share a port"
	}
	if name == "sweep" && slices.Contains(idle, "np") {
		more = "; the ranks of each trial: wdlrun sweep -np N"
	}
	return fmt.Errorf("%s is one process, so -%s %s no effect: leave %s out: %s%s", name, strings.Join(idle, " and -"), have, it, commandLine(app, kept, rest), more)
}

// takesLaunchFlag reports whether a launch flag has an effect on a command. All have one
// on commands that start ranks.
func takesLaunchFlag(program, flag string) bool {
	switch program {
	case "train", "eval", "predict", "replay", "data index", "ckpt gather", "doctor", "bench", "bench step":
		return true
	case "manifest":
		return flag == "np" || flag == "n" || flag == "json"
	}
	return flag == "json"
}

// splitFlags splits the flags at the beginning of words into those to keep and the others,
// whose names it also returns. rest begins with the program.
func splitFlags(words []string, known []cli.Flag, keep func(name string) bool) (kept, others, names, rest []string) {
	for len(words) > 0 {
		n := flagWords(words, known)
		if n == 0 || n > len(words) {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(words[0], "-"), "-"), "=")
		if keep == nil || keep(name) {
			kept = append(kept, words[:n]...)
		} else {
			others, names = append(others, words[:n]...), append(names, name)
		}
		words = words[n:]
	}
	return kept, others, names, words
}

// programOf returns the words of the program, with its subcommand, and its flags; none if
// it is an executable.
func programOf(app *cli.App, words []string) (program []string, flags []cli.Flag) {
	k := app.Command(words[0])
	if k == nil {
		return words[:1], nil
	}
	if len(words) > 1 && k.Command(words[1]) != nil {
		return words[:2], k.Command(words[1]).Flags
	}
	return words[:1], k.Flags
}

// commandLine formats a command.
func commandLine(app *cli.App, parts ...[]string) string {
	line := app.Name
	for _, w := range slices.Concat(parts...) {
		line += " " + command.Quoted(w)
	}
	return line
}

// programFlags returns the flags of all commands and their subcommands.
func programFlags(commands []*cli.Command) (all []cli.Flag) {
	for _, k := range commands {
		all = append(append(all, k.Flags...), programFlags(k.Subcommands)...)
	}
	return all
}

// owners returns the commands and subcommands that have a flag.
func owners(commands []*cli.Command, prefix, flag string) (have []string) {
	for _, k := range commands {
		if command.Defined(k.Flags, flag) {
			have = append(have, prefix+k.Name)
		}
		have = append(have, owners(k.Subcommands, prefix+k.Name+" ", flag)...)
	}
	return have
}
