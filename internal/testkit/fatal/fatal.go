// Package fatal ends a test at an error that it does not expect.
package fatal

// Test is a *testing.T, B or F, or a *rapid.T.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// If ends t with err, if there is one. It allocates nothing otherwise.
func If(t Test, err error) {
	if err == nil {
		return
	}
	t.Helper()
	t.Fatal(err)
}
