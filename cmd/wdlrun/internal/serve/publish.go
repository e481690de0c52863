package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func PublishCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "publish", Usage: "list, label and roll back the versions that a training publishes", UsageText: "wdlrun publish DIR [-pin LABEL=N | -unpin LABEL | -rollback N | -hold | -release | -verify]",
		Description: `DIR is the folder of the versions: train.export.dir of a training, or OUT/NAME of wdlrun export.
Without flags, publish lists the versions: complete or with changes of an earlier one, the training
(lineage), its step, the time since the step (- for an export), the labels, and whether the version
can be opened.

   -pin stable=N   the label "stable" names version N. A server of the folder has the version and
                   the label; the training does not remove the version and makes it complete
   -unpin stable   removes the label, which must exist
   -rollback N     publishes the rows of version N, or of the version with the label N, as a new
                   version, which servers load, and holds the folder
   -hold           the training publishes nothing, its changes are part of the version after -release
   -release        ends the hold
   -verify         reads all files and compares their checksums; exits with 1 if a version is damaged

A command that is repeated changes nothing. A training and servers may run.

Examples:
   wdlrun publish models/ctr
   wdlrun publish models/ctr -pin stable=1280
   wdlrun publish models/ctr -rollback stable
   wdlrun publish models/ctr -release`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "pin", Usage: "make a label name a version: `LABEL=N`"},
			&cli.StringFlag{Name: "unpin", Usage: "remove `LABEL`"},
			&cli.StringFlag{Name: "rollback", Usage: "publish the rows of version `N` again, and hold the folder"},
			&cli.BoolFlag{Name: "hold", Usage: "stop the training from publishing"},
			&cli.StringFlag{Name: "reason", Usage: "the `TEXT` that -hold shows to other users"},
			&cli.BoolFlag{Name: "release", Usage: "end a hold"},
			&cli.BoolFlag{Name: "verify", Usage: "verify the checksums of all files"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error { return runPublish(p, c) },
	}
}

// change is the result of a command that changes a folder, and its JSON line.
type change struct {
	Dir      string `json:"dir"`
	Action   string `json:"action"`
	Label    string `json:"label,omitempty"`
	Version  *int64 `json:"version,omitempty"`
	Rollback *int64 `json:"rollback,omitempty"` // the version whose rows Version has
	Changed  bool   `json:"changed"`
	Later    bool   `json:"later,omitempty"` // the training makes the version complete

	text string
}

func runPublish(p *command.Program, c *cli.Context) error {
	actions := 0
	for _, flag := range []string{"pin", "unpin", "rollback", "hold", "release", "verify"} {
		if c.IsSet(flag) {
			actions++
		}
	}
	switch {
	case c.NArg() != 1:
		return errors.New("publish: give one folder of versions, such as models/ctr")
	case actions > 1:
		return errors.New("publish: give one of -pin, -unpin, -rollback, -hold, -release and -verify")
	case c.IsSet("reason") && !c.Bool("hold"):
		return errors.New("publish: -reason has no effect without -hold")
	}
	dir := c.Args().First()
	var done *change
	var err error
	switch {
	case c.IsSet("pin"):
		done, err = pinVersion(c.Context, dir, c.String("pin"))
	case c.IsSet("unpin"):
		done, err = unpinLabel(c.Context, dir, c.String("unpin"))
	case c.IsSet("rollback"):
		done, err = rollBack(c.Context, dir, c.String("rollback"))
	case c.Bool("hold"):
		done, err = holdFolder(c.Context, dir, c.String("reason"))
	case c.Bool("release"):
		done, err = releaseFolder(c.Context, dir)
	default:
		return listVersions(p, c, dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; give the folder that contains the versions", ofPublish(err))
	case err != nil:
		return ofPublish(err)
	case command.AsJSON(c):
		return p.PrintJSON(done)
	}
	_, err = fmt.Fprintln(p.Stdout, done.text)
	return err
}

// publishError is an error of the package export, which names its own actions.
type publishError struct{ error }

func (e publishError) Unwrap() error { return e.error }

func (e publishError) Error() string {
	text, ok := strings.CutPrefix(e.error.Error(), "export: ")
	if ok {
		_, text, _ = strings.Cut(text, ": ") // the action
	}
	return "publish: " + strings.TrimPrefix(text, "publish: ")
}

func ofPublish(err error) error { return publishError{err} }

func pinVersion(ctx context.Context, dir, pin string) (*change, error) {
	label, number, ok := strings.Cut(pin, "=")
	n, valid := ledger.ParseNumber(number)
	if !ok || !valid {
		return nil, fmt.Errorf("publish: -pin %q: give a label and the number of a version, such as stable=1280", pin)
	}
	before, _, err := ledger.ReadPins(dir)
	if err != nil {
		return nil, err
	}
	later, err := export.Pin(ctx, dir, label, n)
	if err != nil {
		return nil, err
	}
	was, had := before[label]
	done := &change{Dir: dir, Action: "pin", Label: label, Version: &n, Changed: !had || was != n, Later: later, text: fmt.Sprintf("%s is version %d of %s", label, n, dir)}
	if later {
		done.text += "; the training makes it complete with one of its next versions"
	}
	return done, nil
}

func unpinLabel(ctx context.Context, dir, label string) (*change, error) {
	was, err := export.Unpin(ctx, dir, label)
	if err != nil {
		return nil, err
	}
	if !was {
		return nil, fmt.Errorf("publish: %s has no label %q; the labels: wdlrun publish %s", dir, label, dir)
	}
	done := &change{Dir: dir, Action: "unpin", Label: label, Changed: was, text: fmt.Sprintf("removed the label %s of %s", label, dir)}
	return done, nil
}

// rollBack rolls back to a version given by its number or label.
func rollBack(ctx context.Context, dir, to string) (*change, error) {
	n, ok := ledger.ParseNumber(to)
	if !ok {
		pins, _, err := ledger.ReadPins(dir)
		if err != nil {
			return nil, err
		}
		if n, ok = pins[to]; !ok {
			return nil, fmt.Errorf("publish: -rollback %q: it is neither the number of a version nor a label of %s", to, dir)
		}
	}
	version, created, err := export.Rollback(ctx, dir, n)
	if err != nil {
		return nil, err
	}
	return &change{Dir: dir, Action: "rollback", Version: &version, Rollback: &n, Changed: created,
		text: fmt.Sprintf("version %d of %s has the rows of version %d; nothing is published until: wdlrun publish %s -release", version, dir, n, dir)}, nil
}

func holdFolder(ctx context.Context, dir, reason string) (*change, error) {
	changed, err := export.Hold(ctx, dir, reason)
	if err != nil {
		return nil, err
	}
	return &change{Dir: dir, Action: "hold", Changed: changed, text: fmt.Sprintf("%s is on hold; nothing is published until: wdlrun publish %s -release", dir, dir)}, nil
}

func releaseFolder(ctx context.Context, dir string) (*change, error) {
	was, err := export.Release(ctx, dir)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s was not on hold", dir)
	if was != nil {
		text = fmt.Sprintf("%s: the hold has ended (%s); trainings publish again", dir, was)
	}
	return &change{Dir: dir, Action: "release", Changed: was != nil, text: text}, nil
}

// listVersions prints the versions of a folder. With -verify a damaged version is an error.
func listVersions(p *command.Program, c *cli.Context, dir string) error {
	l, err := export.List(dir, c.Bool("verify"))
	if err != nil {
		return ofPublish(err)
	}
	if inside, _ := filepath.Glob(filepath.Join(dir, "*", "[0-9]*", "MANIFEST.json")); len(l.Versions) == 0 && len(inside) > 0 { // the pattern is well-formed, except for odd names
		return fmt.Errorf("publish: %s has no versions, but folders in it have: give one of them, such as wdlrun publish %s", dir, filepath.Dir(filepath.Dir(inside[0])))
	}
	if len(l.Versions) == 0 {
		fmt.Fprintf(p.Stderr, "wdlrun: warning: %s has no versions: give train.export.dir of a training that has published, or OUT/NAME of wdlrun export\n", dir)
	}
	if command.AsJSON(c) {
		err = p.PrintJSON(l)
	} else {
		err = printVersions(p.Stdout, &l, time.Now())
	}
	if bad := l.Bad(); err == nil && c.Bool("verify") && len(bad) > 0 {
		return command.Afterwards(fmt.Errorf("publish: %s: %s of %d cannot be opened: %v", dir, plural.Of(len(bad), "version"), len(l.Versions), bad))
	}
	return err
}

func printVersions(to io.Writer, l *export.Listing, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "version\tkind\tlineage\tstep\tage\tpins\tstate")
	for _, v := range l.Versions {
		kind, age := v.Kind, "-"
		if v.Previous != nil {
			kind = fmt.Sprintf("changes of %d", *v.Previous)
		}
		if v.Rollback != nil {
			kind = fmt.Sprintf("rollback to %d", *v.Rollback)
		}
		if v.Taken > 0 {
			age = now.Sub(time.Unix(0, v.Taken)).Truncate(time.Second).String()
		}
		fmt.Fprintln(w, strings.Join([]string{strconv.FormatInt(v.Version, 10), kind, orDash(v.Lineage), strconv.FormatInt(v.Step, 10), age, orDash(strings.Join(v.Pins, ",")), v.State}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var lines []string
	for label, n := range l.Pins {
		if !slices.ContainsFunc(l.Versions, func(v export.Listed) bool { return v.Version == n }) {
			lines = append(lines, fmt.Sprintf("%s names version %d, which is not there", label, n))
		}
	}
	slices.Sort(lines)
	for _, fault := range l.Faults {
		lines = append(lines, "not used: "+fault)
	}
	if l.Hold != nil {
		lines = append(lines, fmt.Sprintf("on hold (%s): nothing is published until: wdlrun publish %s -release", l.Hold, l.Dir))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
