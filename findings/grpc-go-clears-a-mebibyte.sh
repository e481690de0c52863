#!/usr/bin/env bash
# grpc-go 1.85.0: the default pool of buffers (mem.DefaultBufferPool) has no size between 32 KiB and 1 MiB, and clears
# the whole buffer, not the part that is asked for, whenever it is used again. A codec that joins the frames of a message
# of 36 kB with BufferSlice.MaterializeToBuffer and this pool therefore writes 1 MiB of zeros for each message.
#
# Why it matters: 36 kB is a request for the scores of 100 candidates. The zeros displace a second-level cache of 1 MiB,
# with the rows of embeddings in it. A codec may use a pool of its own, which need not clear: a message fills its buffer.
#
# Seen: a buffer of 36000 bytes has a capacity of 1048576, of which 1048576 bytes were cleared.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir" && rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"google.golang.org/grpc/mem"
)

func main() {
	debug.SetGCPercent(-1) // a collection would empty the pool
	pool := mem.DefaultBufferPool()
	cleared, capacity := 0, 0
	for range 100 { // the pool of a processor may be another after a switch
		b := pool.Get(36000)
		capacity = cap(*b)
		whole := (*b)[:capacity]
		for i := range whole {
			whole[i] = 1
		}
		pool.Put(b)
		again := pool.Get(36000)
		if again != b {
			continue
		}
		for _, x := range (*again)[:cap(*again)] {
			if x == 0 {
				cleared++
			}
		}
		break
	}
	fmt.Printf("a buffer of 36000 bytes has a capacity of %d, of which %d bytes were cleared\n", capacity, cleared)
	if capacity != 1<<20 || cleared != 1<<20 {
		fmt.Println("changed: expected 1048576 and 1048576")
		os.Exit(1)
	}
}
GO
export CGO_ENABLED=0 GOFLAGS=-mod=mod
go mod init finding >/dev/null 2>&1
go get google.golang.org/grpc@v1.85.0 >/dev/null 2>&1
go run .
