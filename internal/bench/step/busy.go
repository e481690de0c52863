package step

// Limits that indicate other work on the machine or its host. On a quiet machine the rate
// of multiply-adds varies by a few percent, and nine steps of ten by less than a fifth.
const (
	quietCores = 0.95 // least share of the steps' time for which one thread had a core
	quietSteps = 1.3  // ninth decile over first decile
	quietPeaks = 1.1  // the same for the rate of multiply-adds
)
