package train

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// checkSlots returns the reasons why a configuration cannot be trained in slots on size
// ranks.
func checkSlots(c *config.Config, replicas, size int) error {
	var errs []error
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf("train.slots: "+format, a...)) }
	s := c.Train.Slots
	if bits.OnesCount(uint(s)) != 1 || size > s || s%size != 0 {
		fault("%s on %s: give a power of two, on 1, 2, 4 … ranks up to that", plural.Of(s, "slot"), plural.Of(size, "rank"))
	}
	if c.Train.Batch > 0 {
		fault("the global batch must not depend on the ranks: give train.global_batch instead of train.batch")
	}
	if c.Model.BatchNorm {
		fault("model.batch_norm sums over the ranks in the middle of a batch: turn it off")
	}
	if c.Train.ClipNorm > 0 {
		fault("train.clip_norm needs a norm that is summed by rank: turn it off")
	}
	if c.Train.Mode != "wait" {
		fault("mode %s assigns microbatches differently: use mode wait", c.Train.Mode)
	}
	if replicas > 1 || c.Data.Follow.On {
		fault("cannot be combined with -replicas or data.follow")
	}
	for i, x := range c.Tables {
		if x.Strategy == "pooled" {
			fault("tables[%d].strategy: pooled sums by rank: choose rows", i)
		}
	}
	return errors.Join(errs...)
}
