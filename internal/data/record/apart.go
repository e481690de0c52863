package record

// apart returns at most n files: the first, the last, and others at equal distances.
func apart(files []File, n int) []File {
	if len(files) <= n {
		return files
	}
	some := make([]File, n)
	for i := range some {
		some[i] = files[i*(len(files)-1)/(n-1)]
	}
	return some
}
