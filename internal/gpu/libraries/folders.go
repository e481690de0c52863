package libraries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Variable is the environment variable that names folders with libraries, separated by colons.
const Variable = "WDLRUN_CUDA_PATH"

// maxFolders bounds the folders of a search.
const maxFolders = 64

// patterns are where libraries are, below a folder that Variable names or an environment of Python.
var (
	packages = []string{"lib/python*/site-packages/nvidia/*/lib"}
	patterns = append([]string{".", "lib", "lib64", "nvidia/*/lib", "*/lib"}, packages...)
)

// Folders returns the folders to search: from Variable and from LD_LIBRARY_PATH, which are
// examined before their libraries are opened, the system's loader, and from the active environment
// of Python. Variable may name folders of libraries, site-packages or environments
// of Python; a folder without any library is an error.
func Folders(getenv func(string) string) (all []string, err error) {
	for _, folder := range filepath.SplitList(getenv(Variable)) {
		found := below(folder, patterns)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: %s has no cuBLAS %d or %d and no NCCL: name a folder of libraries or an environment of Python with the nvidia packages", Variable, folder, oldest, newest)
		}
		all = append(all, found...)
	}
	for _, folder := range filepath.SplitList(getenv("LD_LIBRARY_PATH")) {
		if folder != "" { // else it is the current directory
			all = append(all, below(folder, []string{"."})...)
		}
	}
	all = append(all, "")
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if folder := getenv(name); folder != "" {
			all = append(all, below(folder, packages)...)
		}
	}
	if len(all) > maxFolders {
		return nil, fmt.Errorf("%s: libraries are in more than %d folders", Variable, maxFolders)
	}
	return all, nil
}

// below returns the folders that have a library.
func below(folder string, patterns []string) (all []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(quoted(folder), pattern)) // the pattern is valid
		for _, at := range found {
			if exists(filepath.Join(at, "libnccl.so.2")) || exists(filepath.Join(at, fmt.Sprintf("libcublas.so.%d", oldest))) || exists(filepath.Join(at, fmt.Sprintf("libcublas.so.%d", newest))) {
				all = append(all, at)
			}
		}
	}
	return all
}

// quoted makes a pattern that matches only a folder itself.
func quoted(folder string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(folder)
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
