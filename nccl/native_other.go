//go:build !(gpu && cgo && linux)

package nccl

const built = false

// native is what the build with the tag gpu binds. Without it there is no way to make one.
type native struct{}

func openNative(nccl, cuda string) (n native, version Version, path string, err error) {
	return native{}, 0, "", ErrNotBuilt
}

func (native) preferInterface(string)             {}
func (native) newID() (ID, error)                 { return ID{}, ErrNotBuilt }
func (native) newComm(Context) nativeComm         { return nativeComm{} }
func (nativeComm) init(ID, int, int) int          { return 0 }
func (nativeComm) state() int                     { return 0 }
func (nativeComm) launch(Stream, *Call) int       { return 0 }
func (nativeComm) group(Stream, []Call) int       { return 0 }
func (nativeComm) split(int, int, nativeComm) int { return 0 }
func (nativeComm) world() (rank, size, rc int)    { return 0, 0, 0 }
func (nativeComm) finalize() int                  { return 0 }
func (nativeComm) destroy() int                   { return 0 }
func (nativeComm) abort() int                     { return 0 }
func (nativeComm) query(Stream) int               { return 0 }
func (nativeComm) text() string                   { return "" }
func (nativeComm) free()                          {}
func (nativeComm) exists() bool                   { return false }

type nativeComm struct{}
