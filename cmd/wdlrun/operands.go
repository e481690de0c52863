package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// withOperands are the programs whose operands are files or directories. Their flags may
// come before and after the operands, as in init -data day_*.csv -out x.yaml after
// expansion by a shell.
var withOperands = [...]string{"init", "data", "ckpt", "replay", "agent", "report", "runs", "trace", "hosts", "publish"}

// flagsFirst moves the flags of such a program before its operands, as package flag
// requires. Arguments after -- are operands. Other programs are not changed.
func flagsFirst(app *cli.App, args []string) []string {
	at := 1 // index of the program
	for at < len(args) {
		n := flagWords(args[at:], app.Flags)
		if n == 0 {
			break
		}
		at += n
	}
	if at >= len(args) || !slices.Contains(withOperands[:], args[at]) {
		return args
	}
	program := app.Command(args[at])
	if at++; at < len(args) && program.Subcommands != nil {
		if program = program.Command(args[at]); program == nil {
			return args
		}
		at++
	}
	ordered, operands := slices.Clone(args[:at]), []string(nil)
	for n := 0; at < len(args); at += n {
		switch n = flagWords(args[at:], program.Flags); {
		case args[at] == "--":
			return append(append(append(ordered, "--"), operands...), args[at+1:]...)
		case n == 0:
			operands = append(operands, args[at])
			n = 1
		case at+n > len(args):
			return append(ordered, args[at]) // an operand is not its value
		default:
			ordered = append(ordered, args[at:at+n]...)
		}
	}
	return append(ordered, operands...)
}

// flagWords returns the number of words of the flag at the beginning of args, 0 if it is
// not a flag.
func flagWords(args []string, flags []cli.Flag) int {
	word := args[0]
	if !strings.HasPrefix(word, "-") || word == "-" || word == "--" {
		return 0
	}
	name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	for _, f := range flags {
		if _, bare := f.(*cli.BoolFlag); !bare && slices.Contains(f.Names(), name) {
			return 2
		}
	}
	return 1
}
