package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// About is the content of run.json: the command of a run, its hosts, and notes of the user.
type About struct {
	Version string   `json:"version"`           // version of the program
	Command []string `json:"command"`           // command of a rank, without the launch flags
	Hosts   []string `json:"hosts"`             // by rank
	From    string   `json:"from,omitempty"`    // checkpoint of the model that the training began with
	Day     string   `json:"day,omitempty"`     // partition of train -by
	Mark    string   `json:"mark,omitempty"`    // identity of its files
	Content string   `json:"content,omitempty"` // identity of their bytes, and of those of data.valid if it is the next partition; "": unknown
	Note    string   `json:"note,omitempty"`
	Tags    []string `json:"tags,omitempty"`
}

// ReadAbout reads run.json.
func ReadAbout(dir string) (a About, err error) {
	b, err := regular.ReadFile(filepath.Join(dir, FileRun), 1<<20)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(b, &a)
}

// WriteAbout writes run.json. An empty note or tags keep those in the file, which a resumed
// training needs.
func WriteAbout(dir string, a About) error {
	var damaged *json.SyntaxError
	var foreign *json.UnmarshalTypeError
	was, err := ReadAbout(dir)
	switch {
	case err == nil:
		a.Note, a.From = cmp.Or(a.Note, was.Note), cmp.Or(a.From, was.From)
		if len(a.Tags) == 0 {
			a.Tags = was.Tags
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &damaged) && !errors.As(err, &foreign):
		return err
	}
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(dir, FileRun, append(b, '\n'))
}
