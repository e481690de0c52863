package input

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A training does not open the files that its conditions exclude by their folders: those of the first
// day are damaged. With Part, some of many files are opened, among them the first and the last.
func TestOpensSelectedFiles(t *testing.T) {
	dir := t.TempDir()
	const files = 300 // of each day
	for day := 1; day <= 3; day++ {
		at := filepath.Join(dir, fmt.Sprintf("dt=2026-11-0%d", day))
		fatal.If(t, os.Mkdir(at, 0o755))
		for i := range files {
			text := fmt.Sprintf("click,site\n%d,s%d\n", i%2, i)
			if day == 1 || day == 2 && i == 1 {
				text = "damaged\n\"\x00"
			}
			fatal.If(t, os.WriteFile(filepath.Join(at, fmt.Sprintf("part-%03d.csv", i)), []byte(text), 0o600))
		}
	}
	for _, x := range []struct {
		where string
		part  bool
		files int // that are opened; −1: one of them is damaged
	}{
		{`, where: "dt != '2026-11-01'"`, true, 128},
		{`, where: "dt != '2026-11-01'"`, false, -1},
		{`, where: "dt == '2026-11-03'"`, true, 128},
		{`, where: "dt == '2026-11-03'"`, false, files},
		{`, train_where: "dt == '2026-11-03'"`, false, files},
		{"", true, -1},
	} {
		c, err := config.Parse("test", []byte(fmt.Sprintf("data: {train: [%q], header: true%s}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}, {field: dt, encode: hash}]\n", dir, x.where)))
		fatal.If(t, err)
		in, err := Open(Setup{Config: c, Part: x.part})
		if x.files < 0 {
			if err == nil || !strings.Contains(err.Error(), "its header differs") && !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%+v: %v", x, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", x, err)
			continue
		}
		names := in.Train.Names()
		_, unread := in.Train.Excluded()
		if len(names) != x.files || !strings.HasSuffix(names[len(names)-1], "part-299.csv") || !x.part && unread != 2*files {
			t.Errorf("%+v: %d files opened, %d excluded", x, len(names), unread)
		}
	}
}
