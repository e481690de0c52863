//go:build !linux

package tcp

import (
	"net"
	"time"
)

// setUserTimeout does nothing: only Linux has the option.
func setUserTimeout(*net.TCPConn, time.Duration) {}

func setUnpaced(*net.TCPConn) {}

func spareFiles() (spare, limit int) { return 0, 0 }
