package input

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// Open opens the data that a configuration names. Validation rows are read from their own
// files or held out of the training files.
func Open(x Setup) (*Input, error) {
	in, c := &Input{Setup: x, ValidRows: data.All, waited: new(atomic.Int64)}, x.Config
	const train = "training"
	all, err := in.union()
	open := func(what string, list int) (d *data.Dataset) {
		if len(lists(c)[list]) == 0 || err != nil {
			return nil
		}
		by, evaluates := x.Use.Schema(c), what != train || x.Use.Evaluates
		if !evaluates {
			by.HoldOut = c.Data.ValidTime + c.Data.ValidGroup // at most one of them is set
		} else if x.Use.Evaluates {
			by.HoldOut = x.Use.Group // read like a field that holds rows out
		}
		var files *record.Set
		if files, err = all.open(list, evaluates); err == nil {
			d, err = data.OpenSet(files, by, evaluates)
		}
		if err != nil && !x.Use.Evaluates {
			err = fmt.Errorf("%s data: %w", what, err)
		}
		return d
	}
	if !c.Data.Follow.On {
		in.Train = open(train, listTrain)
	}
	if err == nil && in.Train != nil && !x.Use.Evaluates {
		err = keepNegatives(in.Train, c)
	}
	in.Valid, in.Test = open("validation", listValid), open("test", listTest)
	for i, d := range []*data.Dataset{in.Valid, in.Test} {
		if file := sharedFile(in.Train, d); file != "" && c.Data.TrainWhere == "" {
			key := []string{"data.valid", "data.test"}[i]
			in.Warn(fmt.Sprintf("data.train and %s both have the file %s: metrics of records that the model was trained on are too good; remove the file from one of them", key, file))
		}
	}
	if err == nil && in.Train == nil && !c.Data.Follow.On {
		err = errors.New("training data: data.train names no file")
	}
	if err == nil && c.Data.ValidFraction > 0 {
		in.Valid, in.ValidRows = in.Train, data.Valid
		err = holdOut(in)
	}
	return in, err
}
