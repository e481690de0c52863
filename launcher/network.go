package launcher

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
)

// shared returns the key of the connection attempts, or "" if there is only one host.
func (a *remote) shared() string {
	if len(a.hosts) == 1 {
		return ""
	}
	return a.key.Hex()
}

// choose makes the hosts try to reach each other and chooses the addresses on which their
// ranks listen.
func (a *remote) choose() error {
	if len(a.hosts) == 1 {
		a.hosts[0].ip = "127.0.0.1"
		return nil
	}
	filter, err := hosts.ParseFilter(a.job.Remote.Net)
	if err != nil {
		return err
	}
	places, ports := make([]hosts.Place, len(a.hosts)), make([]int, len(a.hosts))
	for i, h := range a.hosts {
		places[i], ports[i] = hosts.Place{Host: h.name, Addresses: h.ready.Addresses}, h.ready.Port
	}
	targets, faults := hosts.Targets(places, ports, filter), make([]error, len(a.hosts))
	var all sync.WaitGroup
	for i, h := range a.hosts {
		all.Go(func() {
			var err error
			if places[i].Trials, err = h.reach(targets[i]); err != nil {
				faults[i] = &hostError{h.name, err}
			}
		})
	}
	all.Wait()
	if err := foldFaults(a.hosts, faults); err != nil {
		return err
	}
	choice, err := hosts.Choose(places, filter)
	if err != nil {
		return &networkError{err}
	}
	var where []string
	for i, h := range a.hosts {
		h.ip = choice.IPs[i]
		where = append(where, h.name+" "+h.ip)
	}
	const most = 8
	if n := len(where); n > most {
		where = append(where[:most], fmt.Sprintf("and %d more", n-most))
	}
	if !a.job.Quiet {
		fmt.Fprintf(lineWriter{a.console}, "wdlrun: %d hosts exchange over %s: %s\n", len(a.hosts), choice, strings.Join(where, ", "))
	}
	return nil
}

// networkError reports why hosts cannot exchange data.
type networkError struct{ error }

func (e *networkError) Unwrap() error { return e.error }

// reach makes a host try to reach others.
func (h *remoteHost) reach(targets []hosts.Target) ([]hosts.Trial, error) {
	late := time.AfterFunc(readyTime, func() { h.process.Kill() })
	defer late.Stop()
	if err := h.link.Send(hosts.Message{What: hosts.Reach, Targets: targets}); err != nil {
		return nil, h.gone()
	}
	switch m, err := h.link.Receive(); {
	case err != nil:
		return nil, h.gone()
	case m.What != hosts.Reached:
		return nil, errors.New(m.Text)
	default:
		return m.Trials, nil
	}
}
