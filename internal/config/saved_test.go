package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSavedStrategies: tables that an earlier version replicated send rows, which gives the same
// bits. In the configuration of a user, the strategy is an error.
func TestSavedStrategies(t *testing.T) {
	old := append(bytes.Clone(adult), "\ntables: [{name: age, strategy: replicated}]\n"...)
	got, err := ParseSaved("saved.yaml", old)
	fatal.If(t, err)
	if len(got.Tables) != 1 || got.Tables[0].Strategy != "rows" {
		t.Errorf("%+v", got.Tables)
	}
	if _, err := Parse("own.yaml", old); err == nil || !strings.Contains(err.Error(), `"replicated" is unknown; did you mean rows?`) {
		t.Errorf("%v", err)
	}
}

// TestSavedKeysAreIgnored: a deleted key is ignored in the configuration of a checkpoint and
// is an error with advice in the configuration of a user.
func TestSavedKeysAreIgnored(t *testing.T) {
	old := bytes.Replace(adult, []byte("\ntrain:\n"), []byte("\ntrain:\n  hot: {keys: 30, every_steps: 1024}\n"), 1)
	if bytes.Equal(old, adult) {
		t.Fatal("adult.yaml has no section train")
	}
	got, err := ParseSaved("saved.yaml", old)
	fatal.If(t, err)
	if want := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Parse("own.yaml", old); err == nil || !strings.Contains(err.Error(), "train.hot: is no longer a key: hot keys were removed") || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("%v", err)
	}
}
