package train

import (
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// Kept is the model that a process keeps in memory after a training, for the training on the next
// partition (Day.Kept). The zero value keeps none. Its tables have the bits of its checkpoint.
type Kept struct {
	run     string         // run directory of the training
	dir     string         // checkpoint of the model
	config  *config.Config // of the training
	trainer *step.Trainer  // nil: no model is kept
}

// Close frees the model.
func (k *Kept) Close() (err error) {
	if k != nil && k.trainer != nil {
		err = k.trainer.Close()
		k.trainer = nil
	}
	return err
}

// source returns the checkpoint of the model if it is of a run directory; "" if it is not.
func (k *Kept) source(runDir string) string {
	if k == nil || k.trainer == nil || k.run != runDir {
		return ""
	}
	return k.dir
}

// take returns the model if it is of a checkpoint and computes what a configuration describes, and
// no longer keeps it; nil if it is not.
func (k *Kept) take(dir string, c *config.Config) *step.Trainer {
	if k == nil || k.trainer == nil || k.dir != dir || !sameButData(k.config, c) {
		return nil
	}
	t := k.trainer
	k.trainer = nil
	return t
}

// sameButData reports whether two filled configurations differ in their data only.
func sameButData(a, b *config.Config) bool {
	a, b = a.Clone(), b.Clone()
	a.Data, b.Data = schema.Source{}, schema.Source{}
	return string(a.YAML()) == string(b.YAML())
}
