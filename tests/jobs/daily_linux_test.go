package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// daily are the commands of docs/daily.md, by heading. A heading is a line that begins with ## or the bold
// words at the beginning of a recipe.
type daily struct {
	under map[string][]string
	ran   sync.Map // commands that a test has run
}

// readDaily reads the paragraphs of the document that are indented and begin with a command.
func readDaily(t *testing.T) *daily {
	text, err := os.ReadFile("../../docs/daily.md")
	fatal.If(t, err)
	d := &daily{under: map[string][]string{}}
	heading := ""
	title, command := regexp.MustCompile(`^(?:## (.*)|\*\*(.*?)\.\*\*)`), regexp.MustCompile(`^ {4,}(wdlrun |for |\d+ [\d*]+ \* \* \* )`)
	for _, paragraph := range strings.Split(string(text), "\n\n") {
		if m := title.FindStringSubmatch(strings.TrimLeft(paragraph, "\n")); m != nil {
			heading = m[1] + m[2]
		}
		if command.MatchString(paragraph) {
			d.under[heading] = append(d.under[heading], paragraph)
		}
	}
	return d
}

// run runs the i-th command under a heading in dir, with bash. Each pair of replaced is a text of the command
// and what the test has instead.
func (d *daily) run(t *testing.T, dir, heading string, i int, replaced ...string) outcome {
	t.Helper()
	if i >= len(d.under[heading]) {
		t.Fatalf("docs/daily.md has %d commands under %q", len(d.under[heading]), heading)
	}
	text := d.under[heading][i]
	d.ran.Store(text, true)
	for k := 0; k < len(replaced); k += 2 {
		if !strings.Contains(text, replaced[k]) {
			t.Fatalf("no %q in the command under %q:\n%s", replaced[k], heading, text)
		}
		text = strings.ReplaceAll(text, replaced[k], replaced[k+1])
	}
	text = regexp.MustCompile(`(?m)^ +\d+ [\d*]+ \* \* \* +cd /srv/ctr &&`).ReplaceAllString(text, "")
	bin, err := wdlrun()
	fatal.If(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, lines strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &lines
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{out.String(), lines.String(), cmd.ProcessState.ExitCode()}
}

// TestDailyDocument runs every command of docs/daily.md, in an order in which a user may. Only names of runs, versions
// and numbers of rows are replaced.
func TestDailyDocument(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	d := readDaily(t)
	t.Run("parts", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *daily){"days": days, "ten": tenDays, "hourly": hourly, "takeover": takeover, "numbers": numbers} {
			t.Run(name, func(t *testing.T) { t.Parallel(); part(t, d) })
		}
	})
	for heading, all := range d.under {
		for _, text := range all {
			if _, ran := d.ran.Load(text); !ran {
				t.Errorf("no test has run this command under %q:\n%s", heading, text)
			}
		}
	}
}

// expect checks the exit code of a command and lines of its output. A line that begins with ! must be missing.
func expect(t *testing.T, o outcome, code int, lines ...string) {
	t.Helper()
	all := o.stdout + o.stderr
	for _, line := range lines {
		line, no := strings.CutPrefix(line, "!")
		if strings.Contains(all, line) == no {
			t.Errorf("%q in this: %v\n%s", line, no, all)
		}
	}
	if o.code != code {
		t.Fatalf("exit code %d, want %d\n%s", o.code, code, all)
	}
}

// dailyConfig is the configuration of days.
const dailyConfig = `data: {train: ["clicks/dt=*/*.parquet"], format: parquet, valid_fraction: 0.2}
label: {field: clicked}
features:
  - {field: user, encode: hash}
  - {field: item, encode: vocabulary}
model: {embedding_dim: 4, hidden: [8]}
train: {epochs: 5, batch: 32, seed: 3, optimizer: {deep: {kind: adam, learning_rate: 0.02}, dense: {kind: adam, learning_rate: 0.02}}}
`

// writeDay writes a folder of clicks below dir. Half of the items are clicked, and every day has ten new ones.
func writeDay(t *testing.T, dir, folder string, day int, item, more string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "clicked,user,%s%s\n", item, more)
	for i := range 600 {
		n := (i*7 + i/20) % 20
		fmt.Fprintf(&b, "%d,u%d,i%d", n%2, i%13, day*10+n)
		if more != "" {
			fmt.Fprintf(&b, ",d%d", i%3)
		}
		b.WriteString("\n")
	}
	name := filepath.Join(t.TempDir(), "part.csv")
	fatal.If(t, os.WriteFile(name, []byte(b.String()), 0o644))
	fatal.If(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	must(t, dir, "data convert -out "+filepath.Join(folder, "part.parquet")+" "+name)
}

// latestDays returns the partitions of the latest run.
func latestDays(t *testing.T, dir string) (names []string, l rundir.Days) {
	t.Helper()
	l, err := rundir.ReadDays(rundir.Real(filepath.Join(dir, "runs", rundir.Latest)))
	fatal.If(t, err)
	for _, day := range l.Days {
		names = append(names, strings.TrimPrefix(day.Day, "2026-11-"))
	}
	return names, l
}

// days follows one model from day to day.
func days(t *testing.T, d *daily) {
	dir := t.TempDir()
	write := func(text string) { fatal.If(t, os.WriteFile(filepath.Join(dir, "ctr.yaml"), []byte(text), 0o644)) }
	day := func(n int, item, more string) {
		t.Helper()
		writeDay(t, dir, fmt.Sprintf("clicks/dt=2026-11-%d", n), n, item, more)
	}
	trained := func(want ...string) {
		t.Helper()
		if got, _ := latestDays(t, dir); !slices.Equal(got, want) {
			t.Fatalf("the model was trained on %q, want %q", got, want)
		}
	}
	cron := func(code int, lines ...string) {
		t.Helper()
		expect(t, d.run(t, dir, "Daily, by cron", 0), code, lines...)
	}
	write(dailyConfig)
	day(20, "item", "")
	day(21, "item", "")
	expect(t, d.run(t, dir, "Every new day at once", 0), 0, "dt=2026-11-20", "dt=2026-11-21", "begins a new model")
	trained("20", "21")
	expect(t, d.run(t, dir, "The latest run", 0), 0)

	day(22, "item", "")
	expect(t, d.run(t, dir, "A whole day", 0), 0, "accepted by train.gate", "models/ctr/")
	trained("20", "21", "22")
	expect(t, d.run(t, dir, "The next day", 0), 0, "begins with the model of runs/")
	trained("20", "21", "22", "22")
	day(23, "item", "")
	cron(0, "dt=2026-11-23", "models/ctr/")
	cron(1, "nothing new", "is already published as version")

	_, l := latestDays(t, dir)
	expect(t, d.run(t, dir, "Back a day", 0, "3042", fmt.Sprint(l.Days[2].Step)), 0, fmt.Sprintf("has the rows of version %d;", l.Days[2].Step))
	expect(t, d.run(t, dir, "Back a day", 1, "20261122-031500", l.Days[3].Run), 0, "dt=2026-11-23", "wrote  models/ctr/")
	trained("20", "21", "22", "22", "23")

	const item, device = "{field: item, encode: vocabulary}", "{field: device, encode: vocabulary}"
	more := strings.Replace(dailyConfig, item, item+"\n  - "+device, 1)
	day(24, "item", ",device")
	fatal.If(t, os.WriteFile(filepath.Join(dir, "more.yaml"), []byte(strings.Replace(more, "dt=*", "dt=2026-11-24", 1)), 0o644))
	expect(t, d.run(t, dir, "A new feature", 0, "runs/20261121-020000", "runs/"+l.Days[3].Run+" -out others"), 0, "device: new", "first layer: 4 of 12 input columns new (zero)")
	write(more)
	cron(0, "dt=2026-11-24", "device: new", "first layer: 4 of 12 input columns new (zero)")

	day(19, "item", "")
	const older = "older than the model and not trained on: dt=2026-11-19"
	cron(1, "nothing new", older)
	cron(1, "nothing new", "!"+older)
	expect(t, d.run(t, dir, "Backfill", 0), 0, "dt=2026-11-19", "no file has column device")
	trained("20", "21", "22", "22", "23", "24", "19")

	write(strings.Replace(more, item, "{field: sku, was: item, encode: vocabulary}", 1))
	day(25, "sku", ",device")
	expect(t, d.run(t, dir, "A renamed column", 0), 0, "sku: kept (was item)")
	day(26, "sku", ",device")
	expect(t, d.run(t, dir, "Every new day at once", 0), 0, "dt=2026-11-26")
	trained("20", "21", "22", "22", "23", "24", "19", "25", "26")
	if _, l := latestDays(t, dir); *l.Days[8].AUC < 0.75 { // it knows half of the items
		t.Errorf("after the renaming, the AUC of the next day is %v", *l.Days[8].AUC)
	}
	write(strings.Replace(dailyConfig, "dt=*", "dt=2026-11-23", 1))
	expect(t, d.run(t, dir, "Only a model that is no worse", 0, "-from latest", "-from latest -out others", "-resume latest", "-resume others/latest"), 0, "wrote  models/ctr/")
}

// tenDays is the loop over ten days, with fewer rows.
func tenDays(t *testing.T, d *daily) {
	dir := t.TempDir()
	o := d.run(t, dir, "Ten days to try", 0, "20000", "300")
	expect(t, o, 0, "dt=2026-11-10", "!missing")
	if got, l := latestDays(t, dir); len(got) != 10 || l.Days[9].AUC == nil {
		t.Errorf("the ledger: %+v", l)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	fatal.If(t, err)
	_, table, _ := strings.Cut(string(page), "<h2>Partitions</h2>")
	table, _, _ = strings.Cut(table, "</table>")
	if strings.Count(table, "2026-11-") != 10 || !strings.Contains(string(page), "Partitions, predicted by the model before") {
		t.Errorf("the report has no table of ten days, or no chart:\n%s", table)
	}
}

// hourly trains hour after hour, and after three missed hours.
func hourly(t *testing.T, d *daily) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "ctr.yaml"), []byte(strings.Replace(dailyConfig, "dt=*/*.parquet", "dt=*/hour=*/*.parquet", 1)), 0o644))
	at := 22
	hours := func(n int) {
		t.Helper()
		for range n {
			writeDay(t, dir, fmt.Sprintf("clicks/dt=2026-11-%d/hour=%02d", 22+at/24, at%24), at, "item", "")
			at++
		}
		o := d.run(t, dir, "Hourly", 0)
		expect(t, o, 0, "models/ctr/")
		if got := strings.Count(o.stdout, "/hour="); got != n {
			t.Errorf("%d partitions in the table, want %d\n%s", got, n, o.stdout)
		}
	}
	hours(1)
	hours(1)
	hours(3) // past midnight
	if got, _ := latestDays(t, dir); !slices.Equal(got, []string{"22/22", "22/23", "23/00", "23/01", "23/02"}) {
		t.Errorf("the model was trained on %q", got)
	}
}

// takeover begins with arrays of PyTorch, whose names are first proposed.
func takeover(t *testing.T, d *daily) {
	const arrays = "../../internal/data/arrays/testdata/"
	const head = `data: {train: [rows.jsonl], format: jsonl}
label: {field: click}
features:
  - {field: items, name: item, encode: vocabulary}
  - {field: user, encode: vocabulary}
  - {field: a, encode: raw}
  - {field: b, encode: raw}
model: {wide: false, embedding_dim: 4, hidden: [8, 8]}
train:
  epochs: 1
  global_batch: 40
`
	for _, source := range []string{"model.pt", "model.safetensors"} {
		dir := t.TempDir()
		for _, name := range []string{source, "rows.jsonl", "item.json", "user.json"} {
			b, err := os.ReadFile(arrays + name)
			fatal.If(t, err)
			fatal.If(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
		}
		config := filepath.Join(dir, "ctr.yaml")
		fatal.If(t, os.WriteFile(config, []byte(head), 0o644))
		expect(t, d.run(t, dir, "Taking a model over", 1, "model.pt", source), 1, "add this to the configuration")
		o := d.run(t, dir, "Taking a model over", 0, "model.pt", source)
		expect(t, o, 0, "table item: row 1 (__OOV__) is the row of unknown values")
		_, names, found := strings.Cut(o.stderr, "\ntrain:\n")
		names, _, _ = strings.Cut(names, "\n\n")
		if !found {
			t.Fatalf("no names are proposed:\n%s", o.stderr)
		}
		fatal.If(t, os.WriteFile(config, []byte(head+names+"\n"), 0o644))
		expect(t, d.run(t, dir, "Taking a model over", 1, "model.pt", source), 0, "begins with the model of "+source)
	}
}

// numbers runs the commands of the measurements, with fewer days and rows.
func numbers(t *testing.T, d *daily) {
	dir := t.TempDir()
	o := d.run(t, dir, "Numbers", 0, "-rows N", "-rows 200", "-drift N", "-drift 200", "d*N", "d*200", "seq 0 29", "seq 0 2")
	expect(t, o, 0, "dt=2026-11-03")
}
