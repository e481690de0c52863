package jobs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestStalledBodiesAreSmall: clients that stall in the middle of gzip bodies, which expand to 15 MiB each, add no more
// to the resident size of a server than the memory of all bodies.
func TestStalledBodiesAreSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := train(t, dir, 1, "-set", "train.epochs=1").RunDir
	must(t, dir, fmt.Sprintf("export -resume %s -out models -name ctr", model))
	s := startServer(t, dir, "-model", "ctr=models/ctr")
	defer s.stop()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte(" "), 15<<20))
	fatal.If(t, err)
	fatal.If(t, z.Close())
	before := resident(t, s.process)
	for range 30 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.rest, "http://"))
		fatal.If(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST /v1/models/ctr:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", packed.Len(), packed.Bytes()[:packed.Len()-100])
		fatal.If(t, err)
	}
	most := 0
	for range 30 {
		time.Sleep(50 * time.Millisecond)
		most = max(most, resident(t, s.process))
	}
	t.Logf("resident size: %d kB, with 30 stalled clients at most %d kB", before, most)
	if most > before+64<<10 {
		t.Errorf("30 stalled clients added %d kB to %d kB", most-before, before)
	}
}
