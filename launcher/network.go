package launcher

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/hosts"
)

// shared is the key of the attempts, "" if there is one host.
func (a *remote) shared() string {
	if len(a.stations) == 1 {
		return ""
	}
	return a.key.Hex()
}

// choose has the hosts try to reach each other, and chooses the addresses at which the
// ranks of each listen.
func (a *remote) choose() error {
	if len(a.stations) == 1 {
		a.stations[0].ip = "127.0.0.1"
		return nil
	}
	filter, err := hosts.ParseFilter(a.job.Remote.Net)
	if err != nil {
		return err
	}
	places, ports := make([]hosts.Place, len(a.stations)), make([]int, len(a.stations))
	for i, s := range a.stations {
		places[i], ports[i] = hosts.Place{Host: s.name, Addresses: s.ready.Addresses}, s.ready.Port
	}
	targets, faults := hosts.Targets(places, ports, filter), make([]error, len(a.stations))
	var all sync.WaitGroup
	for i, s := range a.stations {
		all.Go(func() {
			var err error
			if places[i].Trials, err = s.reach(targets[i]); err != nil {
				faults[i] = &hostError{s.name, err}
			}
		})
	}
	all.Wait()
	if err := foldFaults(a.stations, faults); err != nil {
		return err
	}
	choice, err := hosts.Choose(places, filter)
	if err != nil {
		return err
	}
	var where []string
	for i, s := range a.stations {
		s.ip = choice.IPs[i]
		where = append(where, s.name+" "+s.ip)
	}
	const most = 8
	if n := len(where); n > most {
		where = append(where[:most], fmt.Sprintf("and %d more", n-most))
	}
	if !a.job.Quiet {
		fmt.Fprintf(beside{a.console}, "wdlrun: %d hosts exchange over %s: %s\n", len(a.stations), choice, strings.Join(where, ", "))
	}
	return nil
}

// reach has a host try to reach others.
func (s *station) reach(targets []hosts.Target) ([]hosts.Trial, error) {
	late := time.AfterFunc(readyTime, func() { s.process.Kill() })
	defer late.Stop()
	if err := s.link.Send(hosts.Message{What: hosts.Reach, Targets: targets}); err != nil {
		return nil, s.gone()
	}
	switch m, err := s.link.Receive(); {
	case err != nil:
		return nil, s.gone()
	case m.What != hosts.Reached:
		return nil, errors.New(m.Text)
	default:
		return m.Trials, nil
	}
}
