package train

import (
	"strings"
	"testing"
)

// TestGrowingBatchesEndBetweenMicrobatches: a training whose batches grow may stop between whole
// batches. Modes with equal microbatches cannot resume there, and the error states this.
func TestGrowingBatchesEndBetweenMicrobatches(t *testing.T) {
	_, err := recordAt(&cursor{Step: 5, Rows: 4000, Consumed: 1280}, 3, 512)
	if err == nil || !strings.Contains(err.Error(), "resume with mode wait, whose batches grow to that size (train.scaling)") {
		t.Error(err)
	}
	if _, err := recordAt(&cursor{Step: 6, Rows: 4000, Consumed: 1536}, 3, 512); err != nil {
		t.Error(err)
	}
}
