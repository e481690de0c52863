package agent

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// stranger returns a new peer ID.
func stranger(t testing.TB) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	fatal.If(t, err)
	id, err := peer.IDFromPrivateKey(key)
	fatal.If(t, err)
	return id
}

// TestKey: a machine keeps its key, which no other user can read.
func TestKey(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	folder, err := Folder(func(name string) string { return env[name] })
	if err != nil || folder != filepath.Join(env["HOME"], ".config", "wdlrun") {
		t.Fatal(folder, err)
	}
	if _, err := ID(folder); err == nil || !strings.Contains(err.Error(), "try: wdlrun agent id") {
		t.Error(err)
	}
	key, err := Key(folder)
	fatal.If(t, err)
	again, err := Key(folder)
	if err != nil || !key.Equals(again) {
		t.Errorf("another key the second time, %v", err)
	}
	path := filepath.Join(folder, KeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	fatal.If(t, os.Chmod(path, 0o640))
	if _, err := Key(folder); err == nil || !strings.Contains(err.Error(), "try: chmod 600 "+path) {
		t.Error(err)
	}
	os.Chmod(path, 0o600)
	for _, text := range []string{"", "no key", "AAAA"} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Key(folder); err == nil || !strings.Contains(err.Error(), "holds no key") {
			t.Errorf("%q: %v", text, err)
		}
	}
	env["XDG_CONFIG_HOME"] = "/etc/xdg"
	if folder, err = Folder(func(name string) string { return env[name] }); folder != "/etc/xdg/wdlrun" {
		t.Error(folder, err)
	}
	if _, err := Folder(func(string) string { return "" }); err == nil {
		t.Error("a folder without a home")
	}
}

// TestRoster adds, renames and removes machines.
func TestRoster(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "wdlrun")
	a, b := stranger(t), stranger(t)
	step := func(_ Entry, err error) func(want string) {
		return func(want string) {
			t.Helper()
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	step(Remove(folder, "a"))(`"a" is neither a name nor a peer ID on the roster`)
	step(Allow(folder, a.String(), ""))("")
	step(Allow(folder, b.String(), "b"))("")
	step(Allow(folder, a.String(), "b"))("b is the name of peer " + b.String())
	step(Allow(folder, a.String(), "a"))("")
	step(Allow(folder, a.String(), "-a"))(`"-a" cannot be the name`)
	step(Allow(folder, "x", "x"))(`"x" is not a peer ID`)
	r, err := LoadRoster(folder)
	if err != nil || len(r) != 2 || !r.Has(a) || !r.Has(b) || r.NameOf(a) != "a" || r.Has(stranger(t)) || r.NameOf(stranger(t)) != "" {
		t.Errorf("%v, %v", r, err)
	}
	if e, ok := r.Find(b.String()); !ok || e.Name != "b" {
		t.Error(e, ok)
	}
	if _, ok := r.Find(""); ok {
		t.Error("no name is a name")
	}
	step(Remove(folder, "b"))("")
	step(Remove(folder, a.String()))("")
	if r, err := LoadRoster(folder); err != nil || len(r) != 0 {
		t.Errorf("%v, %v", r, err)
	}
	fatal.If(t, os.Chmod(filepath.Join(folder, RosterFile), 0o666))
	step(Allow(folder, a.String(), ""))("try: chmod 600")
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// FuzzRoster parses any roster.
func FuzzRoster(f *testing.F) {
	f.Add("12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF a\n\n12D3KooWBNv9W8YUVrnjzntdjky8MTNPubuj5zWGAinpLEW99zq5\n")
	f.Add("12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF a b\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRoster(text)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, e := range r {
			if e.ID == "" || e.Name != "" && names[e.Name] || len(e.Name) > 63 {
				t.Errorf("%q: %+v", text, r)
			}
			names[e.Name] = true
		}
	})
}

func TestBadRosters(t *testing.T) {
	id := stranger(t).String()
	var many strings.Builder
	for range maxRoster + 1 {
		many.WriteString(stranger(t).String() + "\n")
	}
	for text, want := range map[string]string{
		"\nnobody\n":  `line 2: "nobody" is not a peer ID and a name`,
		id + " a b\n": "line 1: ",
		id + " a:8\n": `line 1: "a:8" cannot be the name`,
		id + " a\n" + stranger(t).String() + " a": "line 2: a is the name of peer " + id,
		many.String(): "line 1025: more than 1024 machines",
	} {
		if _, err := ParseRoster(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
