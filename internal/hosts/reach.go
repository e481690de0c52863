package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/rank"
)

const (
	// maxAddresses bounds the number of addresses tried per host.
	maxAddresses = 16

	// connectTime bounds the connection of an attempt, which the other host's kernel accepts.
	// proofTime bounds the proof, which its process answers, later if the host is overloaded.
	// trialsTime bounds all attempts of a host.
	connectTime = 3 * time.Second
	proofTime   = 10 * time.Second
	trialsTime  = 15 * time.Second

	// maxTrials bounds the number of attempts of a host in progress.
	maxTrials = 64
)

// Addresses returns the addresses at which others may reach this machine. Loopback addresses
// come last: two hosts of a job may be one machine.
func Addresses() ([]Address, error) {
	faces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var outward, inward []Address
	for _, f := range faces {
		if f.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := f.Addrs()
		if err != nil {
			continue // the interface has gone meanwhile
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			found := Address{IP: n.IP.String(), Net: (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String(), Interface: f.Name, Mbits: speed(f.Name)}
			switch {
			case n.IP.IsGlobalUnicast():
				outward = append(outward, found)
			case n.IP.IsLoopback() && n.IP.To4() != nil:
				inward = append(inward, found)
			}
		}
	}
	all := append(outward, inward...)
	return all[:min(len(all), maxAddresses)], nil
}

// speed returns the speed of an interface in Mbit/s, or 0 if it is unknown.
func speed(name string) int {
	b, err := regular.ReadFile("/sys/class/net/"+name+"/speed", 64)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Listener answers attempts to reach this host by processes that hold the key.
type Listener struct {
	ln   net.Listener
	Port int
}

// Listen opens a Listener on all addresses of this host, at a port of the given range.
func Listen(host string, key rank.Key, within ports.Range) (*Listener, error) {
	secure, err := key.TLS()
	if err != nil {
		return nil, err
	}
	ln, err := within.Listen("")
	if err != nil {
		return nil, err
	}
	l := &Listener{ln: ln, Port: ln.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(proofTime))
				WriteJSON(tls.Server(conn, secure), Header{What: host}, maxHeader) // shakes hands before
			}()
		}
	}()
	return l, nil
}

// Close ends the listener.
func (l *Listener) Close() error { return l.ln.Close() }

// Try tries to reach other hosts.
func Try(ctx context.Context, targets []Target, key rank.Key) ([]Trial, error) {
	secure, err := key.TLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, trialsTime)
	defer cancel()
	trials := make([]Trial, len(targets))
	slots := make(chan struct{}, maxTrials)
	var all sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			begin := time.Now()
			trials[i].Target = t
			if err := try(ctx, t, secure); err != nil {
				trials[i].Fault = faultOf(err)
			} else {
				trials[i].Micros = int(time.Since(begin).Microseconds())
			}
		})
	}
	all.Wait()
	return trials, nil
}

// errAnother is the error of an attempt that another host answers.
var errAnother = errors.New("leads to another process")

// try reports whether a target leads to its host.
func try(ctx context.Context, t Target, secure *tls.Config) error {
	conn, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, "tcp", t.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	late := time.Now().Add(proofTime)
	if end, _ := ctx.Deadline(); end.Before(late) {
		late = end
	}
	conn.SetDeadline(late)
	var h Header
	if err := ReadJSON(tls.Client(conn, secure), &h, maxHeader); err != nil { // shakes hands before
		return err
	}
	if h.What != t.Host {
		return errAnother
	}
	return nil
}

// faultOf describes in a few words why an attempt failed.
func faultOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return "no answer"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	}
	return errAnother.Error()
}

// JoinPort returns an address with a port.
func JoinPort(ip string, port int) string { return net.JoinHostPort(ip, fmt.Sprint(port)) }
