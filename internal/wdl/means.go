package wdl

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// startAtMeans lets the output of a new model for labels that are numbers, and for all
// labels after the first, begin at what predicts the label's mean.
func (j *job) startAtMeans(t *step.Trainer) {
	labels := schemaOf(j.config)
	rows := float64(j.train.Rows(data.All))
	for i, mean := range j.train.LabelMeans() {
		l := &labels.All()[i]
		switch {
		case l.IsPoisson():
			t.Start(i, math.Log(max(mean, 1/(rows+1)))) // finite if all counts are 0
		case l.IsNumber():
			t.Start(i, mean)
		case i > 0:
			ones := float64(mean * rows)
			t.Start(i, math.Log((ones+0.5)/(rows-ones+0.5))) // finite if there is one class only
		}
	}
}
