package train

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/walk"
)

// warnOfOwn warns if the model, or one that it began with, was trained on a file that it is applied to.
func (r *run) warnOfOwn(from *checkpoint.Checkpoint) {
	was, err := save.ReadConfig(from)
	if err != nil || r.Comm.Rank() != 0 {
		return
	}
	own := trainedOn(runOfCheckpoint(from.Dir()), was, r.in.Train.Names())
	switch len(own) {
	case 0:
	case 1:
		r.Warn(fmt.Sprintf("the model was trained on %s: on its rows, the predictions are better than on new ones", own[0]))
	default:
		r.Warn(fmt.Sprintf("the model was trained on %s: on their rows, the predictions are better than on new ones", input.FirstFew(own)))
	}
}

// warnOfCounted warns if the source of a new training has counted files of the training data for features with
// encode: rate. Their counts now have the labels of the records themselves.
func (r *run) warnOfCounted() {
	_, rated := r.in.Encoder.Rated()
	if !rated || r.opt.Day != nil || r.in.Train == nil || r.Comm.Rank() != 0 {
		return
	}
	var was struct {
		Data string `json:"train_data"`
	}
	if o, err := convert.ReadOrigin(r.source); err != nil || o != nil { // arrays have no counts
		return
	}
	c, err := save.ReadConfig(r.source)
	if err != nil || save.ReadJSON(r.source, save.SectionCursor, &was) != nil || was.Data == data.IdentityOf(r.in.Train) {
		return
	}
	if of := trainedOn(runOfCheckpoint(r.source.Dir()), c, r.in.Train.Names()); len(of) > 0 {
		r.Warn(fmt.Sprintf("encode: rate: the model of %s was trained on %s already, so the labels of these rows are among their inputs: train on new rows only, or with -by and -again, which counts them once", r.source.Dir(), input.FirstFew(of)))
	}
}

// maxSources is the largest number of trainings before a model whose files are compared.
const maxSources = 64

// trainedOn returns those of some files that a model was trained on, as partitions if its run directory has
// a ledger of them. Without one, the files of the trainings that it began with are compared, as far as
// their run directories exist. was is its configuration.
func trainedOn(runDir string, was *config.Config, files []string) (own []string) {
	l, err := rundir.ReadDays(runDir)
	ledger := err == nil && l.By != ""
	known := map[string]string{} // by absolute path: name
	add := func(c *config.Config) {
		trained, err := record.List(c.Data.Train)
		if err != nil || c.Data.TrainWhere != "" {
			return // some of the rows
		}
		for i := range trained {
			known[absolute(trained[i].Name)] = trained[i].Name
		}
	}
	add(was)
	for range maxSources {
		about, err := rundir.ReadAbout(runDir)
		if ledger || err != nil || about.From == "" {
			break
		}
		runDir = runOfCheckpoint(about.From)
		text, err := regular.ReadFile(filepath.Join(runDir, rundir.FileConfig), config.MaxBytes)
		if err != nil {
			break
		}
		if c, err := config.Parse(rundir.FileConfig, text); err == nil {
			add(c)
		}
	}
	if by, err := walk.ParseBy(l.By); ledger && err == nil && by.Columns != nil && l.Where == "" {
		trained, _ := record.List(l.Train)
		for i := range trained {
			if day, _ := by.DayOf(&trained[i]); day != "" && l.Last(day) != nil {
				known[absolute(trained[i].Name)] = by.Name(day)
			}
		}
	}
	for _, name := range files {
		if name = known[absolute(name)]; name != "" && !slices.Contains(own, name) {
			own = append(own, name)
		}
	}
	return own
}

// absolute returns the absolute path of a local file, and other names as they are.
func absolute(name string) string {
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}
