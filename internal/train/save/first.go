package save

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// maxFault is the largest size of an error message that rank 0 sends, in bytes.
const maxFault = 1 << 16

// First calls do on rank 0, for example to write a file, and returns the text of its error
// on all ranks; "" if it succeeded.
func First(comm *collective.Comm, rec *trace.Recorder, do func() error) (fault string, err error) {
	var b []byte
	if comm.Rank() == 0 {
		if err := do(); err != nil {
			b = []byte(err.Error())
			b = b[:min(len(b), maxFault)]
		}
	}
	rec.Enter(trace.Wait)
	b, err = collective.BroadcastBytes(comm, b, 0, maxFault)
	return string(b), err
}
