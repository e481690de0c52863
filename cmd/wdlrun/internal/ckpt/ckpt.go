// Package ckpt has the command ckpt, which shows, verifies, compares, prunes and gathers
// checkpoints.
package ckpt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

func ckptSubcommands(p *command.Program) []*cli.Command {
	return []*cli.Command{
		ckptGather(p),
		{
			Name: "show", Usage: "list the checkpoints of a run, or the contents of one", UsageText: "wdlrun ckpt show [flags] RUN|CHECKPOINT",
			Description: `For a run directory RUN: prints one line per checkpoint, the newest first, then the faults
of those that cannot be opened. For a CHECKPOINT, RUN/checkpoints/step-N: prints the position
of the training, and the bytes of each table and of the dense parameters. A checkpoint that is
not full has sections delta/TABLE, the changes since its base.

Examples:
   wdlrun ckpt show runs/20261121-101500
   wdlrun ckpt show -json runs/20261121-101500/checkpoints/step-000000412`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: p.Action(ckptShow),
		},
		{
			Name: "verify", Usage: "read every byte and check it against its checksum", UsageText: "wdlrun ckpt verify [flags] RUN|CHECKPOINT",
			Description: `Reports each fault with file, section and offset. The exit code is 1 if there is any.
Parts that only other hosts hold are counted, but not read.

A checkpoint that builds upon a damaged one counts as damaged. Training resumes automatically
from the newest undamaged checkpoint.

Examples:
   wdlrun ckpt verify runs/20261121-101500
   wdlrun ckpt verify runs/20261121-101500/checkpoints/step-000000412`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: p.Action(ckptVerify),
		},
		{
			Name: "diff", Usage: "list the sections of two checkpoints that differ", UsageText: "wdlrun ckpt diff [flags] CHECKPOINT CHECKPOINT",
			Description: `Compares sections by their checksums: the configuration, the cursor, the dense
parameters and the shards of each table (-json names each). The exit code is 1 if
any differs, as with diff. Two trainings with the same configuration, data, seed and world
size have equal checkpoints. For full checkpoints only the checksums are read. The tables of
a checkpoint that builds upon others are first assembled in memory, one at a time.

Example:
   wdlrun ckpt diff runs/A/checkpoints/step-000000412 runs/B/checkpoints/step-000000412`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: p.Action(ckptDiff),
		},
		{
			Name: "prune", Usage: "remove old checkpoints", UsageText: "wdlrun ckpt prune -keep N [flags] RUN",
			Description: `Keeps the newest N complete checkpoints, the checkpoint of the best epoch, and those that they
build upon. A damaged checkpoint newer than these is kept and reported; an older one is
removed. Training prunes automatically (train.checkpoint.keep). A run in use is rejected.
Of a checkpoint that was moved elsewhere and linked, only the link is removed (-json: links).

Examples:
   wdlrun ckpt prune -keep 2 -dry-run runs/20261121-101500
   wdlrun ckpt prune -keep 2 runs/20261121-101500`,
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "keep", Value: 1, Usage: "keep the newest `N`"},
				&cli.BoolFlag{Name: "dry-run", Usage: "print what would be removed, and remove nothing"},
				command.JSONFlag(),
			}, Action: p.Action(ckptPrune),
		},
	}
}

func Command(p *command.Program) *cli.Command {
	subs := ckptSubcommands(p)
	return &cli.Command{
		Name: "ckpt", Usage: "show, verify, compare, prune and collect checkpoints", UsageText: "wdlrun ckpt show|verify|diff|prune|gather [flags] RUN",
		Description: `A checkpoint is a folder RUN/checkpoints/step-N with one file per rank that wrote it. Any
number of ranks can resume from it: wdlrun -np N train -resume RUN

Examples:
   wdlrun ckpt show runs/20261121-101500
   wdlrun ckpt show runs/20261121-101500/checkpoints/step-000000412
   wdlrun ckpt verify runs/20261121-101500
   wdlrun ckpt diff runs/A/checkpoints/step-000000412 runs/B/checkpoints/step-000000412
   wdlrun ckpt prune -keep 2 runs/20261121-101500
   wdlrun -H a,b ckpt gather runs/20261121-101500`,
		Subcommands: subs,
		Action: func(c *cli.Context) error {
			if path := c.Args().First(); command.IsDir(path) {
				return fmt.Errorf("ckpt: what to do with %s? to list its checkpoints: %s ckpt show %s", path, command.Called(os.Args[0]), command.QuotedPath(path))
			}
			if c.Args().Present() {
				return fmt.Errorf("%q is none of show, verify, diff, prune and gather; see: wdlrun ckpt --help", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// ckptLine describes one checkpoint, or its fault.
type ckptLine struct {
	Dir       string     `json:"dir"`
	Step      int64      `json:"step"`
	Time      *time.Time `json:"time,omitempty"`
	WorldSize int        `json:"world_size,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`
	Version   int        `json:"format_version,omitempty"`
	Base      *int64     `json:"base_step,omitempty"`  // of its base
	Best      bool       `json:"best,omitempty"`       // it holds the best epoch so far
	Away      int        `json:"parts_away,omitempty"` // parts that only other hosts hold
	Fault     string     `json:"fault,omitempty"`
}

// eachCheckpoint calls each with the checkpoints of a path: all of a run, or one.
func eachCheckpoint(c *cli.Context, each func(f checkpoint.Found, c *checkpoint.Checkpoint, err error) error) error {
	if c.NArg() != 1 {
		return fmt.Errorf("give one run directory or checkpoint; see: wdlrun ckpt %s --help", c.Command.Name)
	}
	all, err := ckptDirs(command.RunAt(c.Args().First(), command.RunsFolder))
	if err != nil {
		return err
	}
	for _, f := range all {
		ck, err := checkpoint.Open(f.Dir)
		if err := each(f, ck, err); err != nil {
			return err
		}
	}
	return nil
}

// ckptDirs lists the checkpoints of a path, the newest first.
func ckptDirs(at string) ([]checkpoint.Found, error) {
	if checkpoint.IsCheckpoint(at) {
		if !command.IsDir(at) { // it is missing, not damaged
			_, _, err := checkpoint.Resolve(at)
			return nil, err
		}
		return []checkpoint.Found{{Dir: at}}, nil
	}
	const wanted = "give a run directory, such as runs/20261121-101500, or one of its checkpoints"
	if !command.IsDir(at) {
		return nil, fmt.Errorf("there is no directory %s: %s", at, wanted)
	}
	root := at
	if sub := filepath.Join(at, checkpoint.Folder); command.IsDir(sub) {
		root = sub
	}
	found, err := checkpoint.List(root)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s holds no checkpoint: %s", at, wanted)
	}
	return found, nil
}

func describe(f checkpoint.Found, c *checkpoint.Checkpoint, err error) ckptLine {
	if err != nil {
		return ckptLine{Dir: f.Dir, Step: f.Step, Fault: err.Error()}
	}
	m := c.Manifest()
	l := ckptLine{Dir: f.Dir, Step: m.Step, Time: &m.Time, WorldSize: m.WorldSize, Version: m.FormatVersion, Away: len(c.Away())}
	for _, f := range m.Files {
		l.Bytes += f.Size
	}
	if m.Base != nil {
		l.Base = &m.Base.Step
	}
	return l
}

// kind returns "full", or the checkpoint that this one builds upon.
func (l ckptLine) kind() string {
	kind := "full"
	if l.Base != nil {
		kind = fmt.Sprintf("changes since %d", *l.Base)
	}
	if l.Best {
		kind += ", best epoch"
	}
	if l.Away > 0 {
		kind += fmt.Sprintf(", %d of %d parts here", l.WorldSize-l.Away, l.WorldSize)
	}
	return kind
}

func ckptShow(p *command.Program, c *cli.Context) error {
	if c.NArg() == 1 && checkpoint.IsCheckpoint(c.Args().First()) {
		return ckptContent(p, c)
	}
	lines, best := []ckptLine{}, int64(0)
	err := eachCheckpoint(c, func(f checkpoint.Found, ck *checkpoint.Checkpoint, err error) error {
		if err == nil && best == 0 { // the newest checkpoint has it
			at, err := save.ReadProgress(ck)
			if best = at.Best; err != nil || best == 0 {
				best = -1
			}
		}
		line := describe(f, ck, err)
		line.Best = line.Step == best
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{"checkpoints": lines})
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "step\twritten\tranks\tbytes\tkind\tdirectory")
	faults := ""
	for _, l := range lines {
		if l.Fault != "" {
			fmt.Fprintf(w, "%d\t–\t–\t–\tDAMAGED\t%s\n", l.Step, l.Dir)
			faults += fmt.Sprintf("\nstep %d: %s\n", l.Step, l.Fault)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\n", l.Step, l.Time.Local().Format(time.DateTime), l.WorldSize, l.Bytes, l.kind(), l.Dir)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprint(p.Stdout, faults)
	return err
}

// ckptGroup is the sections of one table, or a single section.
type ckptGroup struct {
	Name     string `json:"name"`
	Sections int    `json:"sections"`
	Bytes    int64  `json:"bytes"`
}

// groups groups the sections of a checkpoint, sparse/TABLE/SHARD by table.
func groups(c *checkpoint.Checkpoint) (all []ckptGroup) {
	for _, name := range c.Names() {
		group := groupOf(name)
		if len(all) == 0 || all[len(all)-1].Name != group {
			all = append(all, ckptGroup{Name: group})
		}
		g := &all[len(all)-1]
		g.Sections, g.Bytes = g.Sections+1, g.Bytes+c.Size(name)
	}
	return all
}

// groupOf returns the table of a shard's section, or the section itself.
func groupOf(section string) string {
	if strings.Contains(section, "/") {
		return path.Dir(section)
	}
	return section
}

// ckptContent prints the contents of one checkpoint.
func ckptContent(p *command.Program, c *cli.Context) error {
	ck, err := checkpoint.Open(c.Args().First())
	if err != nil {
		return err
	}
	var at save.Progress
	trained := ck.Has(save.SectionCursor) // else another program has written it with package checkpoint
	if trained {
		if at, err = save.ReadProgress(ck); err != nil {
			return err
		}
	}
	line, all := describe(checkpoint.Found{Dir: ck.Dir()}, ck, nil), groups(ck)
	if command.AsJSON(c) {
		out := map[string]any{"checkpoint": line, "sections": all}
		if trained {
			out["progress"] = at
		}
		return p.PrintJSON(out)
	}
	progress := ""
	if trained {
		progress = fmt.Sprintf(", %d samples, %d epochs and %d rows of the next", at.Samples, at.Epoch, at.Consumed)
	}
	fmt.Fprintf(p.Stdout, "step %d%s, written %s by %s, format version %d, %s\n\n",
		line.Step, progress, line.Time.Local().Format(time.DateTime), plural.Of(line.WorldSize, "rank"), line.Version, line.kind())
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tbytes\tshards")
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\n", g.Name, g.Bytes, g.Sections)
	}
	return w.Flush()
}

func ckptVerify(p *command.Program, c *cli.Context) error {
	lines, faults, known := []ckptLine{}, 0, map[string]error{}
	err := eachCheckpoint(c, func(f checkpoint.Found, ck *checkpoint.Checkpoint, err error) error {
		if err == nil {
			err = verifyChain(c.Context, ck, known)
		}
		if err := c.Context.Err(); err != nil {
			return err
		}
		l := describe(f, ck, err)
		lines = append(lines, l)
		switch {
		case l.Fault != "":
			faults++
			if !command.AsJSON(c) {
				fmt.Fprintf(p.Stdout, "DAMAGED  %s\n  %s\n", f.Dir, strings.ReplaceAll(l.Fault, "\n", "\n  "))
			}
		case !command.AsJSON(c):
			fmt.Fprintf(p.Stdout, "intact   %s  (%d bytes, %s)\n", f.Dir, l.Bytes, l.kind())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		result := map[string]any{"checkpoints": lines, "damaged": faults}
		if faults > 0 {
			result["exit_code"], result["error"] = 1, fmt.Sprintf("%d of %d checkpoints are damaged", faults, len(lines))
		}
		if err := p.PrintJSON(result); err != nil {
			return err
		}
	}
	if faults > 0 {
		return command.Exit(1)
	}
	return nil
}

// verifyChain verifies a checkpoint and its chain of bases. known has the results
// of earlier calls, so that each is read once.
func verifyChain(ctx context.Context, c *checkpoint.Checkpoint, known map[string]error) error {
	var faults []error
	for _, link := range c.Chain() {
		err, done := known[link.Dir()]
		if !done {
			err = link.VerifyOwn(ctx)
			known[link.Dir()] = err
		}
		if err != nil && link != c {
			err = fmt.Errorf("it builds upon %s, which is damaged", link.Dir())
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// ckptChange is a section that differs. A checksum is empty if the section does not exist.
type ckptChange struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

func ckptDiff(p *command.Program, c *cli.Context) error {
	if c.NArg() != 2 {
		return errors.New("give two checkpoints; see: wdlrun ckpt diff --help")
	}
	a, _, err := checkpoint.Resolve(command.RunAt(c.Args().Get(0), command.RunsFolder))
	if err != nil {
		return err
	}
	b, _, err := checkpoint.Resolve(command.RunAt(c.Args().Get(1), command.RunsFolder))
	if err != nil {
		return err
	}
	x, y, err := contentsOf(a, b)
	if err != nil {
		return err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(x)), maps.Keys(y))
	slices.Sort(names)
	names = slices.Compact(names)
	changes := []ckptChange{}
	for _, name := range names {
		if x[name] != y[name] {
			changes = append(changes, ckptChange{name, sumText(x, name), sumText(y, name)})
		}
	}
	if command.AsJSON(c) {
		result := map[string]any{"a": a.Dir(), "b": b.Dir(), "sections": len(names), "changed": changes}
		if len(changes) > 0 {
			result["exit_code"], result["error"] = 1, fmt.Sprintf("%d of %d sections differ", len(changes), len(names))
		}
		err = p.PrintJSON(result)
	} else {
		err = printChanges(p, a, b, names, changes)
	}
	if err == nil && len(changes) > 0 {
		return command.Exit(1)
	}
	return err
}

// contentsOf returns the contents of the sections of two checkpoints.
func contentsOf(a, b *checkpoint.Checkpoint) (x, y map[string]save.Content, err error) {
	if x, err = save.Contents(a); err == nil {
		y, err = save.Contents(b)
	}
	return x, y, err
}

// sumText returns the checksum of a section, "" if it does not exist.
func sumText(contents map[string]save.Content, name string) string {
	if c, ok := contents[name]; ok {
		return c.Sum.String()
	}
	return ""
}

func printChanges(p *command.Program, a, b *checkpoint.Checkpoint, names []string, changes []ckptChange) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintf(p.Stdout, "all %d sections are the same\n", len(names))
		return err
	}
	differ, of := map[string]int{}, map[string]int{}
	var order []string
	for _, name := range names {
		g := groupOf(name)
		if of[g]++; of[g] == 1 {
			order = append(order, g)
		}
	}
	for _, x := range changes {
		differ[groupOf(x.Name)]++
	}
	fmt.Fprintf(p.Stdout, "a  %s\nb  %s\n\n", a.Dir(), b.Dir())
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tdiffer\tof")
	for _, g := range order {
		if differ[g] > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\n", g, differ[g], of[g])
		}
	}
	fmt.Fprintf(w, "all\t%d\t%d\n", len(changes), len(names))
	return w.Flush()
}

func ckptPrune(p *command.Program, c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("give one run directory; see: wdlrun ckpt prune --help")
	}
	if c.Int("keep") < 1 {
		return fmt.Errorf("-keep %d: at least one checkpoint stays", c.Int("keep"))
	}
	at := c.Args().First()
	if !command.IsDir(at) { // a folder of runs is not pruned by a run in it
		at = command.RunAt(at, command.RunsFolder)
	}
	if !command.IsDir(at) {
		return fmt.Errorf("there is no directory %s: give a run directory, such as runs/20261121-101500", at)
	}
	old, damaged, err := save.Prune(c.Context, at, c.Int("keep"), c.Bool("dry-run"))
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		removed, links := []string{}, map[string]string{}
		for _, f := range old {
			removed = append(removed, f.Dir)
			if f.Link != "" {
				links[f.Dir] = f.Link
			}
		}
		return p.PrintJSON(map[string]any{"removed": removed, "links": links, "damaged": damaged, "dry_run": c.Bool("dry-run")})
	}
	verb := "removed"
	if c.Bool("dry-run") {
		verb = "would remove"
	}
	for _, f := range old {
		if f.Link != "" {
			fmt.Fprintf(p.Stdout, "%s the link %s; what it leads to stays: %s\n", verb, f.Dir, f.Link)
			continue
		}
		fmt.Fprintf(p.Stdout, "%s %s\n", verb, f.Dir)
	}
	if len(old) == 0 {
		fmt.Fprintln(p.Stdout, "nothing to remove")
	}
	for _, dir := range damaged {
		fmt.Fprintf(p.Stdout, "left %s, which is damaged; see: wdlrun ckpt verify %s\n", dir, command.QuotedPath(dir))
	}
	return nil
}
