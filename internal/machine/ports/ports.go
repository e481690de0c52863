// Package ports listens on TCP ports within a range, for hosts behind a firewall.
//
// A Range is a value and safe for concurrent use.
package ports

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Range is the ports First … Last. The zero value means any free port.
type Range struct{ First, Last int }

// Parse parses a range such as "20000-20100". "" is the zero value.
func Parse(text string) (r Range, err error) {
	if text == "" {
		return r, nil
	}
	first, last, found := strings.Cut(text, "-")
	r.First, err = number(first)
	if r.Last = r.First; found && err == nil {
		r.Last, err = number(last)
	}
	if err != nil || r.First > r.Last {
		return Range{}, fmt.Errorf("%q is not a range of ports; give one such as 20000-20100", text)
	}
	return r, nil
}

func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return int(n), err
}

// String returns the range in the format of Parse.
func (r Range) String() string {
	if r == (Range{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Listen listens on the first free port of the range, on one address of this host, or on
// all addresses if ip is "".
func (r Range) Listen(ip string) (*net.TCPListener, error) {
	for port := r.First; port <= r.Last; port++ {
		ln, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			return ln.(*net.TCPListener), nil
		}
		if r == (Range{}) || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("all ports within %v are in use; give a larger range with -ports: a host needs one for each of its ranks", r)
}
