package libraries

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFolders has environments of Python, one with a name that is a pattern, and a CUDA toolkit.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	for _, file := range []string{
		"e[1]/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12",
		"e[1]/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"e[1]/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
		"active/lib/python3.14/site-packages/nvidia/cu13/lib/libcublas.so.13",
		"toolkit/lib64/libcublas.so.12",
		"flat/libnccl.so.2",
		"none/libcublas.so.11",
	} {
		fatal.If(t, os.MkdirAll(filepath.Dir(at(file)), 0o755))
		fatal.If(t, os.WriteFile(at(file), nil, 0o644))
	}
	e := at("e[1]/lib/python3.11/site-packages")
	wheels := []string{filepath.Join(e, "nvidia/cublas/lib"), filepath.Join(e, "nvidia/nccl/lib")}
	for _, x := range []struct {
		named, active string
		want          []string
		fault         string
	}{
		{want: []string{""}},
		{named: at("e[1]"), want: append(slices.Clone(wheels), "")},
		{named: e, want: append(slices.Clone(wheels), "")},
		{named: filepath.Join(e, "nvidia"), want: append(slices.Clone(wheels), "")},
		{named: at("toolkit") + ":" + at("flat"), want: []string{at("toolkit/lib64"), at("flat"), ""}},
		{active: at("active"), want: []string{"", at("active/lib/python3.14/site-packages/nvidia/cu13/lib")}},
		{active: at("nothing"), want: []string{""}},
		{named: at("none"), fault: "WDLRUN_CUDA_PATH: " + at("none") + " has no cuBLAS 12 or 13 and no NCCL"},
	} {
		got, err := Folders(func(name string) string {
			return map[string]string{Variable: x.named, "VIRTUAL_ENV": x.active}[name]
		})
		if !slices.Equal(got, x.want) || (err == nil) != (x.fault == "") || err != nil && !strings.HasPrefix(err.Error(), x.fault) {
			t.Errorf("%s %s: %q, %v", x.named, x.active, got, err)
		}
	}
}
