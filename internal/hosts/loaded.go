package hosts

// OwnHash returns the SHA-256 of the part of the executable at path that a system loads.
func OwnHash(path string) (string, error) { return hash(path, true) }

// NewOwnImage is NewImage for this wdlrun, without its debug information and its symbol table.
// They are half of what is sent, and no program reads them: Go's stack traces do not need them.
func NewOwnImage(path string) (*Image, error) {
	h, err := OwnHash(path)
	if err != nil {
		return nil, err
	}
	return &Image{Path: path, Hash: h, own: true}, nil
}
