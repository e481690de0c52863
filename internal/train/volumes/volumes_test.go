package volumes

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// onHosts calls f on a rank of each of the given hosts, which share all directories.
func onHosts(t *testing.T, hosts []string, f func(p *Volumes) error) {
	t.Helper()
	key := rank.NewKey()
	fatal.If(t, mem.Run(len(hosts), 1, func(comm *collective.Comm) error {
		p, err := Open(Config{Comm: comm, Hosts: hosts, Key: key, Listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }})
		if err == nil {
			if err = f(p); err == nil {
				err = collective.Barrier(comm)
			}
		}
		p.Close()
		return err
	}))
}

// TestShared: ranks that see one directory have one volume, and ranks of one host no service.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	token, err := Token(dir)
	fatal.If(t, err)
	onHosts(t, []string{"a", "a", "b"}, func(p *Volumes) error {
		err := p.Split(dir, token)
		if p.Several() || p.of[2] != 0 {
			t.Error("the ranks are on several volumes")
		}
		return err
	})
	if left, _ := filepath.Glob(filepath.Join(dir, ".here*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	onHosts(t, []string{"a", "a"}, func(p *Volumes) error {
		if p != nil || p.Several() {
			t.Error("ranks of one host have a service")
		}
		return nil
	})
}

// TestHolder: each copy is on another volume, and the ranks of a volume share them.
func TestHolder(t *testing.T) {
	for _, of := range [][]int{{0, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 1, 1, 2}, {0, 1, 0, 1}} {
		p, kept := &Volumes{of: of}, make([]int, len(of))
		for r := range of {
			h := p.Holder(r)
			if of[h] == of[r] {
				t.Errorf("%v: rank %d keeps the copy of rank %d", of, h, r)
			}
			kept[h]++
		}
		for volume := range slices.Max(of) + 1 {
			most, least := 0, len(of)
			for r, n := range kept {
				if of[r] == volume {
					most, least = max(most, n), min(least, n)
				}
			}
			if most > least+1 {
				t.Errorf("%v: the ranks of volume %d keep %d to %d copies", of, volume, least, most)
			}
		}
	}
}

// TestServed: only parts, manifests and notes of checkpoints are served.
func TestServed(t *testing.T) {
	for path, want := range map[string]bool{
		"runs/1/checkpoints/step-000000010/MANIFEST.json":          true,
		"/x/checkpoints/step-000000010/rank-0000-of-0002.wck":      true,
		"/x/checkpoints/.tmp-step-000000010/rank-0000-of-0002.wck": true,
		"/x/checkpoints/.old-step-000000010/rank-0000-of-0002.wck": true,
		NotePath("/x/checkpoints", 10, "part", 3):                  true,
		"/x/config.yaml":           false,
		"/x/step-000000010/secret": false,
		"/etc/passwd":              false,
		"/x/checkpoints/step-000000010/rank-0000-of-0002.wck/../../../y": false,
		"": false,
	} {
		if served().MatchString(path) != want {
			t.Errorf("%q is served: %t", path, !want)
		}
	}
}

// TestAwait: a note of another rank arrives when it is there, and a rank that is gone is named
// by its host.
func TestAwait(t *testing.T) {
	note := NotePath("root", 1, "part", 0)
	onHosts(t, []string{"a", "b"}, func(p *Volumes) error {
		if p.Comm.Rank() == 0 {
			p.Note(note, []byte("hello"))
			return nil
		}
		b, err := p.Await(t.Context(), 0, note)
		if string(b) != "hello" {
			t.Errorf("%q", b)
		}
		if _, err := p.Open(t.Context(), 0, "/etc/passwd"); err == nil || !strings.HasPrefix(err.Error(), "host a: ") || !strings.Contains(err.Error(), "403") {
			t.Errorf("a file that is not served: %v", err)
		}
		return err
	})
}

// TestOnlyListedData: a rank serves the data files that it lists, by exactly their paths.
func TestOnlyListedData(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.csv", "secret"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte("0123456789"), 0o600))
	}
	onHosts(t, []string{"a", "b"}, func(p *Volumes) error {
		if err := p.Serve([]string{filepath.Join(dir, "a.csv")}); err != nil || p.Comm.Rank() == 1 {
			return err
		}
		info, err := os.Stat(filepath.Join(dir, "a.csv"))
		if err != nil {
			return err
		}
		for _, x := range []struct{ path, want string }{
			{dir + "/a.csv", ""}, {dir + "/secret", "is not served"}, {dir + "/./a.csv", "is not served"}, {dir + "/a.csv/../secret", "is not served"}, {dir, "is not served"}, {"/etc/passwd", "is not served"}, {"", "is not served"},
		} {
			src, b := p.Data("b", record.Listed{Path: x.path, Bytes: info.Size(), Time: info.ModTime().UnixNano()}), make([]byte, 10)
			_, err := src.ReadAt(b, 0)
			if ok := err == nil && string(b) == "0123456789"; ok != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%q: %q, %v, want %q", x.path, b, err, x.want)
			}
			src.Close()
		}
		return nil
	})
}
