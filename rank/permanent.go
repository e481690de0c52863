package rank

// What stands in the place of the rank to blame where an error is a rank's own.
const (
	Own     = -1
	ForGood = -2 // and it would come again, however often the job were started
	Differs = -3 // it names ranks that disagree about a call, and which is wrong is not known
)

// PermanentError marks an error that would come again if the job were started again:
// settings that contradict each other, a file that is not there, a full disk where
// nothing has been begun. It reads as the error that it holds.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap is the error itself.
func (e *PermanentError) Unwrap() error { return e.Err }
