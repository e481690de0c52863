package train

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// survey reads the training data once and fits the features, or restores them from a
// checkpoint or another training.
func (r *run) survey(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	r.Rec.Enter(trace.Scan)
	if from != nil {
		var was cursor
		if err := save.ReadJSON(from, save.SectionCursor, &was); err != nil {
			return err
		}
		r.cursor.ByLabel = was.ByLabel
	}
	if r.in, err = input.Open(r.inputSetup()); err != nil {
		return err
	}
	if err := r.in.Agree(); err != nil {
		return err
	}
	if r.source != nil && from == nil {
		if r.in.From, err = encoderOf(r.source); err != nil {
			return err
		}
		was, err := save.ReadConfig(r.source)
		if err != nil {
			return err
		}
		was.Fill()
		r.in.Was, _ = config.Renamed(was, r.config)
		o, err := convert.ReadOrigin(r.source)
		if err != nil {
			return err
		}
		r.in.Renew = r.config.Train.From.Statistics == "new" || o != nil && !o.Statistics
	}
	var encoded []byte
	if from != nil {
		if encoded, err = save.Read(from, save.SectionEncoder); err != nil {
			return err
		}
	}
	if r.surveyed, err = r.loadSurvey(ctx, encoded); err != nil || r.surveyed {
		return err
	}
	return r.in.Survey(ctx, encoded)
}

// loadSurvey loads the survey that another training of the same data has saved.
func (r *run) loadSurvey(ctx context.Context, encoded []byte) (found bool, err error) {
	if r.opt.Survey == "" || !r.cursor.ByLabel || !input.Shareable(r.config) {
		return false, nil
	}
	return r.in.Recall(ctx, filepath.Join(r.opt.Survey, input.SurveyName(r.config)), encoded)
}

// keepSurvey saves the survey for other trainings. If that fails, it warns.
func (r *run) keepSurvey() {
	if r.opt.Survey == "" || !r.cursor.ByLabel || r.Comm.Rank() != 0 || !input.Shareable(r.config) {
		return
	}
	if err := r.in.SaveSurvey(filepath.Join(r.opt.Survey, input.SurveyName(r.config))); err != nil {
		r.Warn(fmt.Sprintf("other trainings must scan the data again: %v", err))
	}
}

// surveyOthers counts the other data of the job, unless loadSurvey has loaded its survey, and keeps
// the survey.
func (r *run) surveyOthers(ctx context.Context) error {
	if r.surveyed {
		return nil
	}
	if err := r.in.SurveyOthers(ctx); err != nil {
		return err
	}
	r.keepSurvey()
	return nil
}

// recount opens the data with counts of its records.
func (r *run) recount(from *checkpoint.Checkpoint, counts [][]byte) (err error) {
	r.Rec.Enter(trace.Scan)
	if r.in, err = input.Open(r.inputSetup()); err != nil {
		return err
	}
	if err := r.in.Agree(); err != nil {
		return err
	}
	encoded, err := save.Read(from, save.SectionEncoder)
	if err != nil {
		return err
	}
	return r.in.Restore(counts, encoded)
}
