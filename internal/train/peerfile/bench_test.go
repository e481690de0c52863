package peerfile

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/rank"
)

// BenchmarkReadAt reads a file of 256 MB in pieces, on this host and through a server of this host.
func BenchmarkReadAt(b *testing.B) {
	key := rank.NewKey()
	s, dir := serve(b, key)
	path := filepath.Join(dir, "x.ok")
	if err := os.WriteFile(path, make([]byte, 32*pieceBytes), 0o600); err != nil {
		b.Fatal(err)
	}
	local, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer local.Close()
	remote, err := client(b, key).Open(b.Context(), s.Addr(), path)
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]io.ReaderAt{"local": local, "remote": remote} {
		b.Run(name, func(b *testing.B) {
			piece, at := make([]byte, pieceBytes), int64(0)
			b.SetBytes(pieceBytes)
			for b.Loop() {
				if _, err := f.ReadAt(piece, at); err != nil {
					b.Fatal(err)
				}
				at = (at + pieceBytes) % remote.Size()
			}
		})
	}
}
