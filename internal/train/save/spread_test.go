package save

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/rank"
)

// TestCopyOfALyingPeer: a copy that is not what its rank noted is rejected and leaves no file.
// A note cannot name a file elsewhere.
func TestCopyOfALyingPeer(t *testing.T) {
	root, key := t.TempDir(), rank.NewKey()
	const name = "rank-0000-of-0002.wck"
	text := []byte(strings.Repeat("part", 1<<19))
	dir := filepath.Join(root, ".tmp-step-000000007")
	fatal.If(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), text, 0o600)))
	sum, err := sumOf(filepath.Join(dir, name))
	fatal.If(t, err)
	fatal.If(t, mem.Run(2, 1, func(comm *collective.Comm) error {
		at, err := volumes.Open(volumes.Config{Comm: comm, Hosts: []string{"a", "b"}, Key: key, Listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }})
		if err != nil {
			return err
		}
		defer at.Close()
		if comm.Rank() == 1 {
			p := &pending{root: root, step: 7, rank: 1, size: 2, copies: 2, volumes: at, part: &part{}}
			for _, x := range []struct {
				file checkpoint.File
				sum  checkpoint.Sum
				want string
			}{
				{checkpoint.File{Name: name, Size: int64(len(text))}, sum, ""},
				{checkpoint.File{Name: name, Size: int64(len(text))}, sum + 1, "the checksum of what host a sent is " + sum.String()},
				{checkpoint.File{Name: name, Size: int64(len(text)) + 1}, sum, "its rank wrote"},
				{checkpoint.File{Name: "../" + name, Size: int64(len(text))}, sum, "is not the name of a part"},
				{checkpoint.File{Name: "rank-0001-of-0002.wck", Size: 5}, sum, "file does not exist"},
			} {
				note := partNote{Sum: x.sum}
				note.File = x.file
				err := p.copyPart(t.Context(), 0, note)
				if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
					t.Errorf("%+v: %v, want %q", x.file, err, x.want)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*.copy")); len(left) > 0 {
					t.Errorf("%q is left", left)
				}
			}
		}
		return collective.Barrier(comm)
	}))
}
