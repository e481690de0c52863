package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

// Printer prints the result of a command as text or as JSON.
type Printer func(w io.Writer, np int, asJSON bool, result []byte) error

// JSONOr returns a printer that writes the result unchanged as JSON, or calls people to write
// it as text.
func JSONOr(people func(w io.Writer, np int, result []byte) error) Printer {
	return func(w io.Writer, np int, asJSON bool, result []byte) error {
		if !asJSON {
			return people(w, np, result)
		}
		_, err := fmt.Fprintf(w, "%s\n", result)
		return err
	}
}

// WithCode adds exit code and error to a result that is a JSON object without them.
func WithCode(result []byte, code int, why string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(result, &object) != nil || len(object) == 0 || object["exit_code"] != nil {
		return result
	}
	more, _ := json.Marshal(map[string]any{"exit_code": code, "error": why}) // cannot fail
	result = bytes.TrimSuffix(bytes.TrimSpace(result), []byte("}"))
	return slices.Concat(result, []byte(","), more[1:])
}

// failure is the JSON line of a job without a result: one that failed, or any executable.
type failure struct {
	WorldSize int           `json:"world_size"`
	ExitCode  int           `json:"exit_code"`
	Error     string        `json:"error,omitempty"`
	Seconds   float64       `json:"seconds"`
	Verdict   *rank.Verdict `json:"verdict,omitempty"`
	RunDir    string        `json:"run_dir,omitempty"`
	Restarts  int           `json:"restarts,omitempty"`
}

// why returns the reason for an exit code in one line, "" for 0.
func why(out launcher.Outcome) string {
	switch {
	case out.Code == 0:
		return ""
	case out.Verdict != nil:
		return out.Verdict.String()
	}
	if out.Code > 128 {
		return fmt.Sprintf("ended by a signal: %v", syscall.Signal(out.Code-128))
	}
	return fmt.Sprintf("ended with exit code %d", out.Code)
}

// Values of -log-format.
const (
	TextLog = "text"
	JSONLog = "json"
)
