package save

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// maxFault bounds the text of an error that one rank sends to the others.
const maxFault = 1 << 16

// First does something on rank 0, such as writing a file, and tells all ranks why it
// failed: "" if it did not.
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
