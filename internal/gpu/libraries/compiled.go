package libraries

import (
	"debug/elf"
	"fmt"
	"regexp"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxConstants bounds the section that compiled reads, in bytes. NCCL 2.32 has 0.9 MB.
const maxConstants = 16 << 20

var compiledWith = regexp.MustCompile(`NCCL version (\d+\.\d+\.\d+)[a-z0-9]*\+cuda(\d{1,3})\.(\d{1,2})`)

// compiled returns the version of NCCL in a file and the version of CUDA that it was compiled with,
// from the text that NCCL logs. Both are zero if the file has no such text.
func compiled(path string) (nccl string, cuda int) {
	var m [][]byte
	read(path, func(f *elf.File) {
		if s := f.Section(".rodata"); s != nil && s.Size <= maxConstants {
			b, _ := s.Data() // what can be read
			m = compiledWith.FindSubmatch(b)
		}
	})
	if m == nil {
		return "", 0
	}
	major, _ := strconv.Atoi(string(m[2])) // digits, by the pattern
	minor, _ := strconv.Atoi(string(m[3]))
	return string(m[1]), 1000*major + 10*minor
}

// read calls f with a library file. The table of sections is at the end of a file, so a truncated one
// is an error: the system's loader would end the process.
func read(path string, f func(*elf.File)) error {
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	e, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("%s is damaged: %w: install it again", path, err)
	}
	f(e)
	return nil
}
