package input

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzSpanLog: the content of a span log is either rejected or read as it was written.
func FuzzSpanLog(f *testing.F) {
	good, _ := json.Marshal(stream.Position{Spans: 4, Span: []string{"in/a"}, Folders: []stream.Folder{{Name: "in", Last: "in/a", Files: 1}}})
	f.Add(append(good, '\n'))
	f.Add(good)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"spans":1,"span":["in/a"],"parts":[{"lo":3,"hi":9,"digest":7}]}` + "\n"))
	f.Add([]byte(`{"spans":1,"span":["in/a"],"parts":[{"lo":9,"hi":9,"digest":7}]}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), FileSpans)
		fatal.If(t, os.WriteFile(path, b, 0o644))
		all, err := ReadSpans(path)
		if err != nil {
			return
		}
		again, err := ReadSpans(path)
		if err != nil || !reflect.DeepEqual(all, again) {
			t.Fatalf("read twice: %v, then %v: %v", all, again, err)
		}
		for i, at := range all {
			if len(at.Span) == 0 || i > 0 && at.Spans != all[i-1].Spans+1 {
				t.Fatalf("%+v", all)
			}
		}
	})
}
