package rank

// Values in place of the rank to blame.
const (
	Own     = -1
	ForGood = -2 // an own error that a restart would repeat
	Differs = -3 // ranks disagree about a call, and which one is wrong is unknown
)

// PermanentError marks an error that would occur again if the job were restarted:
// contradicting settings, a missing file, a disk that is full before the job begins.
// It has the message of Err.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PermanentError) Unwrap() error { return e.Err }
