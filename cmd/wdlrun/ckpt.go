package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/wdl"
)

func ckptCommand(p *program) *cli.Command {
	subs := []*cli.Command{
		{
			Name: "show", Usage: "what checkpoints a run has, or what one holds", UsageText: "wdlrun ckpt show [flags] RUN|CHECKPOINT",
			Description: `RUN is a run directory: one line for each of its checkpoints, the newest first.
CHECKPOINT is one of them, RUN/checkpoints/step-N: where training stood, and how
many bytes each table and the dense parameters have.`,
			Flags: []cli.Flag{jsonFlag()}, Action: p.ckptShow,
		},
		{
			Name: "verify", Usage: "read every byte and hold it against its checksum", UsageText: "wdlrun ckpt verify [flags] RUN|CHECKPOINT",
			Description: `Names each fault with file, section and offset. The exit code is 1 if there is any.
Training resumes from the newest checkpoint that is whole, and needs no help.`,
			Flags: []cli.Flag{jsonFlag()}, Action: p.ckptVerify,
		},
		{
			Name: "diff", Usage: "which parts of two checkpoints differ", UsageText: "wdlrun ckpt diff [flags] CHECKPOINT CHECKPOINT",
			Description: `Compares sections by their checksums, without reading them: the configuration, the
cursor, the dense parameters and the shards of each table (-json names each). The exit code is 1 if
any differs, as with diff. Two trainings with the same configuration, data, seed and
world size have equal checkpoints.`,
			Flags: []cli.Flag{jsonFlag()}, Action: p.ckptDiff,
		},
		{
			Name: "prune", Usage: "remove old checkpoints", UsageText: "wdlrun ckpt prune -keep N [flags] RUN",
			Description: `Keeps the newest N that are readable, and that of the best epoch. Training does the
same by itself (train.checkpoint.keep); a run in use is refused.`,
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "keep", Value: 1, Usage: "how many `N` of the newest to keep"},
				&cli.BoolFlag{Name: "dry-run", Usage: "say what would be removed, and remove nothing"},
				jsonFlag(),
			}, Action: p.ckptPrune,
		},
	}
	for _, c := range subs {
		c.OnUsageError, c.HideHelpCommand = usageError, true
	}
	return &cli.Command{
		Name: "ckpt", Usage: "show, verify, compare and prune checkpoints", UsageText: "wdlrun ckpt show|verify|diff|prune [flags] RUN",
		Description: `A run directory keeps its checkpoints in RUN/checkpoints/step-N, a file for each rank
that wrote it. Any number of ranks can go on from them: wdlrun -np N train -resume RUN

Examples:
   wdlrun ckpt show runs/20261121-101500
   wdlrun ckpt show runs/20261121-101500/checkpoints/step-000000412
   wdlrun ckpt verify runs/20261121-101500
   wdlrun ckpt diff runs/A/checkpoints/step-000000412 runs/B/checkpoints/step-000000412
   wdlrun ckpt prune -keep 2 runs/20261121-101500`,
		Subcommands: subs,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("%q is none of show, verify, diff and prune; see: wdlrun ckpt --help", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// ckptLine is one checkpoint, or what is wrong with it.
type ckptLine struct {
	Dir       string     `json:"dir"`
	Step      int64      `json:"step"`
	Time      *time.Time `json:"time,omitempty"`
	WorldSize int        `json:"world_size,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`
	Version   int        `json:"format_version,omitempty"`
	Fault     string     `json:"fault,omitempty"`
}

// inspect opens the checkpoints that a path means: all of a run, or one.
func inspect(c *cli.Context, each func(dir string, c *checkpoint.Checkpoint, err error) error) error {
	if c.NArg() != 1 {
		return fmt.Errorf("one run directory or checkpoint is asked for; see: wdlrun ckpt %s --help", c.Command.Name)
	}
	dirs, err := ckptDirs(c.Args().First())
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		ck, err := checkpoint.Open(dir)
		if err := each(dir, ck, err); err != nil {
			return err
		}
	}
	return nil
}

// ckptDirs lists the checkpoints that a path means, the newest first.
func ckptDirs(at string) (dirs []string, err error) {
	if checkpoint.IsCheckpoint(at) {
		return []string{at}, nil
	}
	root := at
	if sub := filepath.Join(at, checkpoint.Folder); isDir(sub) {
		root = sub
	}
	found, err := checkpoint.List(root)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		dirs = append(dirs, f.Dir)
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s holds no checkpoint: give a run directory, such as runs/20261121-101500", at)
	}
	return dirs, nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

func describe(dir string, c *checkpoint.Checkpoint, err error) ckptLine {
	if err != nil {
		return ckptLine{Dir: dir, Fault: err.Error()}
	}
	m := c.Manifest()
	l := ckptLine{Dir: dir, Step: m.Step, Time: &m.Time, WorldSize: m.WorldSize, Version: m.FormatVersion}
	for _, f := range m.Files {
		l.Bytes += f.Size
	}
	return l
}

func (p *program) ckptShow(c *cli.Context) error {
	if c.NArg() == 1 && checkpoint.IsCheckpoint(c.Args().First()) {
		return p.ckptContent(c)
	}
	lines := []ckptLine{}
	err := inspect(c, func(dir string, ck *checkpoint.Checkpoint, err error) error {
		lines = append(lines, describe(dir, ck, err))
		return nil
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.printJSON(map[string]any{"checkpoints": lines})
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "step\twritten\tranks\tbytes\tdirectory")
	for _, l := range lines {
		if l.Fault != "" {
			fmt.Fprintf(w, "\t\t\t\t%s\n", l.Fault)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\n", l.Step, l.Time.Local().Format(time.DateTime), l.WorldSize, l.Bytes, l.Dir)
	}
	return w.Flush()
}

// ckptGroup is the sections of one table, or one section that stands alone.
type ckptGroup struct {
	Name     string `json:"name"`
	Sections int    `json:"sections"`
	Bytes    int64  `json:"bytes"`
}

// groups gathers the sections of a checkpoint, sparse/TABLE/SHARD by table.
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

// groupOf is the table of a shard's section, or the section itself.
func groupOf(section string) string {
	if strings.Contains(section, "/") {
		return path.Dir(section)
	}
	return section
}

// ckptContent shows one checkpoint.
func (p *program) ckptContent(c *cli.Context) error {
	ck, err := checkpoint.Open(c.Args().First())
	if err != nil {
		return err
	}
	at, err := wdl.ReadProgress(ck)
	if err != nil {
		return err
	}
	line, all := describe(ck.Dir(), ck, nil), groups(ck)
	if c.Bool("json") {
		return p.printJSON(map[string]any{"checkpoint": line, "progress": at, "sections": all})
	}
	fmt.Fprintf(p.stdout, "step %d, %d samples, %d epochs and %d rows of the next, written %s by %d %s, format version %d\n\n",
		line.Step, at.Samples, at.Epoch, at.Consumed, line.Time.Local().Format(time.DateTime), line.WorldSize, plural(line.WorldSize, "rank"), line.Version)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tbytes\tshards")
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\n", g.Name, g.Bytes, g.Sections)
	}
	return w.Flush()
}

func (p *program) ckptVerify(c *cli.Context) error {
	lines, faults := []ckptLine{}, 0
	err := inspect(c, func(dir string, ck *checkpoint.Checkpoint, err error) error {
		if err == nil {
			err = ck.Verify(c.Context)
		}
		if err := c.Context.Err(); err != nil {
			return err
		}
		l := describe(dir, ck, err)
		lines = append(lines, l)
		switch {
		case l.Fault != "":
			faults++
			if !c.Bool("json") {
				fmt.Fprintf(p.stdout, "DAMAGED  %s\n  %s\n", dir, strings.ReplaceAll(l.Fault, "\n", "\n  "))
			}
		case !c.Bool("json"):
			fmt.Fprintf(p.stdout, "whole    %s  (%d bytes)\n", dir, l.Bytes)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := p.printJSON(map[string]any{"checkpoints": lines, "damaged": faults}); err != nil {
			return err
		}
	}
	if faults > 0 {
		return exit(1)
	}
	return nil
}

// ckptChange is a section that differs: a checksum is empty where there is none.
type ckptChange struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

func (p *program) ckptDiff(c *cli.Context) error {
	if c.NArg() != 2 {
		return errors.New("two checkpoints are asked for; see: wdlrun ckpt diff --help")
	}
	a, _, err := checkpoint.Resolve(c.Args().Get(0))
	if err != nil {
		return err
	}
	b, _, err := checkpoint.Resolve(c.Args().Get(1))
	if err != nil {
		return err
	}
	names := append(a.Names(), b.Names()...)
	slices.Sort(names)
	names = slices.Compact(names)
	changes := []ckptChange{}
	for _, name := range names {
		if x, y := a.Checksum(name), b.Checksum(name); x != y || a.Size(name) != b.Size(name) {
			changes = append(changes, ckptChange{name, x, y})
		}
	}
	if c.Bool("json") {
		err = p.printJSON(map[string]any{"a": a.Dir(), "b": b.Dir(), "sections": len(names), "changed": changes})
	} else {
		err = p.printChanges(a, b, names, changes)
	}
	if err == nil && len(changes) > 0 {
		return exit(1)
	}
	return err
}

func (p *program) printChanges(a, b *checkpoint.Checkpoint, names []string, changes []ckptChange) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintf(p.stdout, "all %d sections are the same\n", len(names))
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
	fmt.Fprintf(p.stdout, "a  %s\nb  %s\n\n", a.Dir(), b.Dir())
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tdiffer\tof")
	for _, g := range order {
		if differ[g] > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\n", g, differ[g], of[g])
		}
	}
	fmt.Fprintf(w, "all\t%d\t%d\n", len(changes), len(names))
	return w.Flush()
}

func (p *program) ckptPrune(c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("one run directory is asked for; see: wdlrun ckpt prune --help")
	}
	if c.Int("keep") < 1 {
		return fmt.Errorf("-keep %d: at least one checkpoint stays", c.Int("keep"))
	}
	removed, err := wdl.Prune(c.Args().First(), c.Int("keep"), c.Bool("dry-run"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.printJSON(map[string]any{"removed": removed, "dry_run": c.Bool("dry-run")})
	}
	verb := "removed"
	if c.Bool("dry-run") {
		verb = "would remove"
	}
	for _, dir := range removed {
		fmt.Fprintf(p.stdout, "%s %s\n", verb, dir)
	}
	if len(removed) == 0 {
		fmt.Fprintln(p.stdout, "nothing to remove")
	}
	return nil
}
