package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// misplaced finds flags of a command before the command, where only launch flags are
// read, and reports the command line with each flag in its place. A program that is no
// command of ours takes none of these flags.
func misplaced(app *cli.App, args []string) error {
	all := programFlags(app.Commands)
	var launch, moved, names []string
	at := 1
	for at < len(args) {
		n := flagWords(args[at:], append(slices.Clip(app.Flags), all...))
		if n == 0 || at+n > len(args) {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[at], "-"), "-"), "=")
		if words := args[at : at+n]; !defined(app.Flags, name) && defined(all, name) {
			moved, names = append(moved, words...), append(names, name)
		} else {
			launch = append(launch, words...)
		}
		at += n
	}
	if len(names) == 0 || at >= len(args) {
		return nil // without a program the parser reports them
	}
	program, flags := args[at:at+1], []cli.Flag(nil)
	if k := app.Command(args[at]); k != nil {
		flags = k.Flags
		if at+1 < len(args) && k.Command(args[at+1]) != nil {
			program, flags = args[at:at+2], k.Command(args[at+1]).Flags
		}
	}
	for _, name := range names {
		if !defined(flags, name) {
			return fmt.Errorf("%s has no flag -%s: it belongs to %s", strings.Join(program, " "), name, strings.Join(owners(app.Commands, "", name), " and "))
		}
	}
	corrected := slices.Concat(launch, program, moved, args[at+len(program):])
	for i, w := range corrected {
		corrected[i] = quoted(w)
	}
	what, it := "is a flag", "it"
	if len(names) > 1 {
		what, it = "are flags", "them"
	}
	return fmt.Errorf("-%s %s of %s: put %s after the program: %s %s", strings.Join(names, " and -"), what, strings.Join(program, " "), it, app.Name, strings.Join(corrected, " "))
}

// programFlags are the flags of all commands and their subcommands.
func programFlags(commands []*cli.Command) (all []cli.Flag) {
	for _, k := range commands {
		all = append(append(all, k.Flags...), programFlags(k.Subcommands)...)
	}
	return all
}

// owners are the commands, and subcommands, that have a flag.
func owners(commands []*cli.Command, prefix, flag string) (have []string) {
	for _, k := range commands {
		if defined(k.Flags, flag) {
			have = append(have, prefix+k.Name)
		}
		have = append(have, owners(k.Subcommands, prefix+k.Name+" ", flag)...)
	}
	return have
}
