package rank

// Status is what a rank reports about itself in each heartbeat.
type Status struct {
	Step, Steps   int64 // steps done, and in total (0 if unknown)
	Epoch, Epochs int64
	Span          int64  // span of a stream, in place of an epoch
	Phase         string // what the rank is doing; "": unknown
	Waits         bool   // in this phase it may be waiting for other ranks
	Position      string // position in the input, such as "adult.data offset 123456"

	// Progress is any number that changes while the rank makes progress, such as rows
	// scanned or evaluated. It shows that a long phase is not stuck.
	Progress int64

	MayEnd bool // the program may end before Steps

	Samples          int64
	SamplesPerSecond float64
	Loss             float64
	RunDir           string
}

// mark is the part of a status that changes with progress.
type mark struct {
	step, epoch, samples, progress int64
	phase, position                string
}

func (s Status) mark() mark {
	return mark{s.Step, s.Epoch, s.Samples, s.Progress, s.Phase, s.Position}
}
