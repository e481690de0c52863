package mesh

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/machine/usersock"
)

// New starts to listen. Call Serve next.
func New(cfg Config) (*Mesh, error) {
	key, err := agent.Key(cfg.Folder)
	if err != nil {
		return nil, err
	}
	return newWith(cfg, key)
}

func newWith(cfg Config, key crypto.PrivKey) (*Mesh, error) {
	roster, err := agent.LoadRoster(cfg.Folder)
	if err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	m := &Mesh{cfg: cfg, id: id, life: rand.Text(), host: host, gate: newGate(id, roster, cfg.Log), book: newBook(), every: findEvery, jobs: map[*exec.Cmd]peer.ID{}, idle: make(chan struct{})}
	if m.local, err = agent.Listen(cfg.Folder); err != nil {
		return nil, err
	}
	if m.swarm, err = newSwarm(key, m.gate); err == nil {
		m.swarm.SetStreamHandler(m.answer)
		err = m.listen()
	}
	if err == nil {
		err = m.addBootstrap()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Serve serves launchers and other agents until ctx ends. Then it asks the host processes
// to end, and waits for them.
func (m *Mesh) Serve(ctx context.Context) error {
	defer m.Close()
	var all sync.WaitGroup
	defer all.Wait()
	searching, cancel := context.WithCancel(context.Background())
	defer cancel()
	all.Go(func() { m.find(searching) })
	unmapProgram()
	failed := make(chan error, 1)
	go func() {
		for {
			conn, err := usersock.Accept(m.local)
			if err != nil {
				failed <- err
				return
			}
			go m.answerLauncher(conn)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("agent: %w", err)
	case <-ctx.Done():
	}
	m.stopJobs()
	return nil
}
