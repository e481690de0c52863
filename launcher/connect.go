package launcher

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
)

// connect starts the host processes, all at once, and has them prepare the job.
func (a *remote) connect(ctx context.Context) error {
	image, err := hosts.NewOwnImage(ownImage(a.job.Remote.Self))
	if err != nil {
		return fmt.Errorf("launcher: start: own executable: %w", err)
	}
	first, err := a.first(image)
	if err != nil {
		return err
	}
	stderr := lineWriter{a.console}
	here := hosts.Local{Command: []string{a.job.Remote.Self, HostWord}, Run: a.startGuarded, Stderr: stderr}
	agents := agent.NewStarter(a.job.Remote.Agents, hosts.Ship(first.Ship), image, stderr)
	away, err := a.starter(hosts.Ship(first.Ship), image, stderr)
	if err != nil {
		return err
	}
	program := sync.OnceValues(func() (*hosts.Image, error) { return hosts.NewImage(a.job.Command[0]) })
	var all sync.WaitGroup
	faults := make([]error, len(a.hosts))
	for i, h := range a.hosts {
		all.Go(func() {
			m, from := first, away
			switch {
			case (Host{Name: h.name}).Local():
				m.Ship, from = string(hosts.Auto), here
			case strings.HasPrefix(h.name, agent.Prefix):
				from = agents
			}
			m.Host, m.Size = h.name, len(h.ranks)
			if err := h.connect(ctx, from, m, program); err != nil {
				faults[i] = &hostError{h.name, err}
			}
		})
	}
	all.Wait()
	if err := foldFaults(a.hosts, faults); err != nil {
		return err
	}
	if err := a.choose(); err != nil {
		return err
	}
	for _, h := range a.hosts {
		go h.send()
		go a.receive(h)
		go a.accept(h)
	}
	return nil
}

// first is the first message to each host.
func (a *remote) first(own *hosts.Image) (m hosts.Message, err error) {
	m = hosts.Message{What: hosts.Job, Key: a.shared(), Protocol: hosts.Protocol, Own: own.Hash, Each: a.job.Plan.Each.wire(), Ship: cmp.Or(a.job.Remote.Ship, string(hosts.Auto)), Dir: a.job.Dir}
	if m.Dir == "" {
		if m.Dir, err = os.Getwd(); err != nil {
			return m, fmt.Errorf("launcher: start: working directory: %w; name one with -wdir", err)
		}
	}
	if len(a.job.Guard) > 1 {
		m.Guard = a.job.Guard[1:]
	}
	env := a.job.Env
	if env == nil {
		env = os.Environ()
	}
	for _, v := range environment(env) {
		if !strings.HasPrefix(v, markName+"=") && slices.ContainsFunc(passed, func(p string) bool { return strings.HasPrefix(v, p) }) {
			m.Env = append(m.Env, v)
		}
	}
	m.Env = append(m.Env, a.job.Remote.Pass...)
	name := a.job.Command[0]
	switch {
	case name == a.job.Remote.Self:
		name = ""
	case strings.ContainsRune(name, '/'):
		if m.Hash, err = hosts.Hash(name); err != nil {
			return m, fmt.Errorf("launcher: start: %w", err)
		}
	}
	m.Command = []string{name}
	return m, nil
}
