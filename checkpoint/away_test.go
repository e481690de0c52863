package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// onTwoHosts saves a checkpoint of two parts, one on each host. b is the root of the second
// host.
func onTwoHosts(t *testing.T, step int64, base *Link, a, b string, parts content) {
	t.Helper()
	m := Manifest{Step: step, Base: base, Run: "0123456789abcdef", Meta: map[string]json.RawMessage{"x": json.RawMessage(`{ "y":1}`)}}
	for p, root := range []string{a, b} {
		f, err := savePart(system{}, root, step, parts, p)
		fatal.If(t, err)
		f.Hosts = []string{string("ab"[p])}
		m.Files = append(m.Files, f)
	}
	fatal.If(t, Commit(a, m))
	fatal.If(t, Adopt(b, manifestOf(t, a, step)))
}

func manifestOf(t *testing.T, root string, step int64) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Dir(root, step), manifestName))
	fatal.If(t, err)
	return b
}

// from returns a function for Attach that reads missing parts from another root.
func from(root string) func(path string, of File) (Content, error) {
	return func(path string, of File) (Content, error) {
		if exists(path) {
			return nil, nil
		}
		b, err := os.ReadFile(filepath.Join(root, filepath.Base(filepath.Dir(path)), of.Name))
		return bytes.NewReader(b), err
	}
}

// TestAttach: on two hosts, each root can be opened and reports the missing parts. All of the
// chain can be read after the parts of the other host are attached.
func TestAttach(t *testing.T) {
	roots := [2]string{t.TempDir(), t.TempDir()}
	first := content{{"x": []byte("first"), "y": []byte("1")}, {"z": []byte("other")}}
	second := content{{"x": []byte("second")}, {"w": nil, "v": []byte("more")}}
	onTwoHosts(t, 1, nil, roots[0], roots[1], first)
	onTwoHosts(t, 2, &Link{Step: 1}, roots[0], roots[1], second)
	for i, root := range roots {
		c, err := Open(Dir(root, 2))
		fatal.If(t, err)
		if away := c.Away(); len(away) != 1 || away[0].Hosts[0] != string("ba"[i]) || len(c.Base().Away()) != 1 {
			t.Errorf("root %d lacks %+v", i, away)
		}
		lacking := []string{"w", "x"}[i]
		err = c.Read(lacking, func(io.Reader) error { return nil })
		if want := "such as " + partName(1-i, 2) + " of host " + string("ba"[i]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("root %d: section %q: %v, want %q", i, lacking, err, want)
		}
		if err := c.Verify(context.Background()); err == nil || !strings.Contains(err.Error(), "1 of 2 parts are not on this host or damaged") {
			t.Errorf("root %d is verified: %v", i, err)
		}
		if err := errors.Join(c.VerifyOwn(context.Background()), c.VerifyOwn(context.Background(), i)); err != nil {
			t.Errorf("root %d: %v", i, err)
		}
		fatal.If(t, c.Attach(from(roots[1-i])))
		for j, link := range c.Chain() {
			got, err := load(link)
			if err != nil || len(link.Away()) != 0 {
				t.Fatal(err, link.Away())
			}
			for _, part := range []content{first, second}[j] {
				for name, b := range part {
					if !bytes.Equal(got[name], b) {
						t.Errorf("root %d: section %q is %q, want %q", i, name, got[name], b)
					}
				}
			}
		}
	}
	if got, want := manifestOf(t, roots[1], 2), manifestOf(t, roots[0], 2); !bytes.Equal(got, want) {
		t.Error("the manifests differ")
	}
}

// TestAttachChecks: data from another host is checked like a file.
func TestAttachChecks(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	onTwoHosts(t, 1, nil, a, b, content{{"x": []byte("first")}, {"z": []byte("payload")}})
	good, err := os.ReadFile(filepath.Join(Dir(b, 1), partName(1, 2)))
	fatal.If(t, err)
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		c, err := Open(Dir(a, 1))
		fatal.If(t, err)
		err = c.Attach(func(path string, of File) (Content, error) {
			if exists(path) {
				return nil, nil
			}
			return bytes.NewReader(bad), nil
		})
		if err == nil {
			_, err = load(c)
		}
		if err == nil {
			t.Errorf("the change of byte %d gives no error", at)
		}
	}
	c, err := Open(Dir(a, 1))
	if err == nil {
		err = c.Attach(func(path string, of File) (Content, error) { return bytes.NewReader(good[:len(good)-1]), nil })
	}
	if err == nil || !strings.Contains(err.Error(), "the manifest has") {
		t.Errorf("a truncated part: %v", err)
	}
}

// TestAdopt: a host without parts stores the manifest. An adopted checkpoint is not written
// again and replaces another one of its step. A damaged manifest is rejected.
func TestAdopt(t *testing.T) {
	a, b, none := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "new")
	onTwoHosts(t, 1, nil, a, b, content{{"x": []byte("first")}, {"z": nil}})
	text := manifestOf(t, a, 1)
	for range 2 {
		fatal.If(t, Adopt(none, text))
	}
	c, err := Open(Dir(none, 1))
	if err != nil || len(c.Away()) != 2 {
		t.Errorf("%v, %v", c, err)
	}
	bad := bytes.Replace(text, []byte(`"step": 1`), []byte(`"step": 2`), 1)
	if err := Adopt(none, bad); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a changed manifest: %v", err)
	}
	mustSave(t, none, 1, sample("x")) // a checkpoint of another run of the training
	fatal.If(t, Adopt(none, text))
	if got := manifestOf(t, none, 1); !bytes.Equal(got, text) {
		t.Error("the other checkpoint still exists")
	}
	if err := Prune(b, 1); err != nil {
		t.Error(err)
	}
}

// TestPartsWithoutHosts: a missing part is damage if the manifest names no host for it.
func TestPartsWithoutHosts(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 1, content{{"x": nil}, {"y": nil}})
	fatal.If(t, os.Remove(filepath.Join(Dir(root, 1), partName(1, 2))))
	if _, err := Open(Dir(root, 1)); err == nil {
		t.Error("the checkpoint was opened")
	}
}

// TestAdoptAlone: a host gets the manifest of a checkpoint that was written to a shared
// directory, so that it can read the parts of the other host.
func TestAdoptAlone(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	fatal.If(t, save(system{}, a, 7, content{{"x": []byte("first")}, {"z": []byte("other")}}))
	text := manifestOf(t, a, 7)
	for range 2 {
		fatal.If(t, Adopt(b, text))
	}
	c, err := Open(Dir(b, 7))
	if err != nil || len(c.Away()) != 2 {
		t.Fatalf("opening: %v, %v", c, err)
	}
	if err := c.Verify(context.Background()); err == nil || !strings.Contains(err.Error(), "rank-0000-of-0002.wck of another host: wdlrun -H HOSTS ckpt gather") {
		t.Errorf("verifying: %v", err)
	}
	fatal.If(t, c.Attach(from(a)))
	if got, err := load(c); err != nil || string(got["x"]) != "first" || string(got["z"]) != "other" {
		t.Errorf("reading: %q, %v", got, err)
	}
	// One of two parts is not a checkpoint.
	d := t.TempDir()
	if _, err := savePart(system{}, d, 7, content{{"x": []byte("first")}, {"z": []byte("other")}}, 0); err != nil {
		t.Fatal(err)
	}
	if err := Adopt(d, text); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one of two parts: %v", err)
	}
}
