package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

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
