package record

import "testing"

// spread reads each place once, in order, and at most rows records.
func TestSpread(t *testing.T) {
	for _, x := range []struct {
		files            []int // blocks per file
		each, rows, want int
	}{
		{[]int{1}, 100, 10, 10}, {[]int{1}, 7, 10, 7}, {[]int{3}, 4, 10, 10}, {[]int{3}, 3, 10, 9},
		{[]int{40}, 10, 100, 100}, {[]int{40}, 1, 100, 40}, {[]int{1000}, 1, 100, 100}, {[]int{1000}, 1000, 2000, 2000},
		{[]int{2}, 0, 5, 0}, {[]int{0}, 0, 5, 0},
		{[]int{1, 1, 1}, 10, 100, 30}, {[]int{1, 1, 1}, 1000, 100, 100}, {[]int{1, 100, 1}, 5, 100, 5 + 48 + 5}, {[]int{100, 100}, 1000, 100, 100},
	} {
		var files [][]Block
		for i, n := range x.files {
			blocks := make([]Block, n)
			for k := range blocks {
				blocks[k] = Block{int32(i), int64(k), int64(k + 1)}
			}
			files = append(files, blocks)
		}
		last, n, of := Block{File: -1}, 0, map[int32]bool{}
		err := sampleFiles(files, x.rows, func(blocks []Block, rows int) (got int, err error) {
			for _, b := range blocks {
				if b.File < last.File || b.File == last.File && b.Lo <= last.Lo {
					t.Errorf("%+v: block %v after %v", x, b, last)
				}
				some := min(x.each, rows-got)
				if last, of[b.File] = b, true; some == 0 && x.each > 0 {
					break
				}
				got += some
			}
			n += got
			return got, nil
		})
		if err != nil || n != x.want || n > 0 && len(of) != len(x.files) {
			t.Errorf("%+v: %d records of %d files, %v", x, n, len(of), err)
		}
	}
}
