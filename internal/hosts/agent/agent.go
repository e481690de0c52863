// Package agent is the client of the agent of a machine: the identity and the roster, the
// messages, and a hosts.Starter for hosts such as @a. Package mesh is the agent itself.
//
// # Files
//
// The folder ~/.config/wdlrun, or wdlrun in XDG_CONFIG_HOME, has two files.
//
//	host.key   the private key of this machine, base64, mode 0600
//	roster     a line for each admitted machine: peer ID, space, name
//
// The peer ID of libp2p is the hash of the public key. Two machines use each other if each
// has the other on its roster. A machine on the roster may start any program here.
//
// # Messages
//
// A conversation begins with a Request and an Answer, each a JSON object preceded by its
// length (hosts.WriteJSON). Programs of this machine reach the agent through a Unix
// socket, which admits only processes of its user. Agents reach each other through streams
// of libp2p.
//
//	launcher     agent here     agent there
//	   list ──►        status ──►               of each machine
//	   start ──►       start ──►
//	   ◄── need        ◄──                      and Size bytes, if the program is missing
//	   ◄── run         ◄──                      the streams of the host process follow (hosts.Carry)
//
// # Limits
//
// A message has at most 1 MiB, a roster 1024 machines, a machine 16 addresses.
package agent

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/hosts"
)

// Values of Request.What.
const (
	List   = "list"   // to the local agent: all machines
	Status = "status" // to any agent: itself, and the addresses that it knows
	Start  = "start"  // starts a host process: To, Hash, Ship
)

// Values of Answer.What.
const (
	Done   = "done"   // Machines
	Failed = "failed" // Text
	Need   = "need"   // the program is needed; its Size follows as the next message
	Run    = "run"    // the host process runs
)

// Request begins a conversation.
type Request struct {
	What  string
	To    string     `json:",omitempty"` // name or peer ID of the machine, of a launcher
	Hash  string     `json:",omitempty"` // SHA-256 of the program, in hexadecimal digits
	Ship  hosts.Ship `json:",omitempty"`
	Peers []Peer     `json:",omitempty"`
	Twins string     `json:",omitempty"` // why the ID of the agent that is asked is not used
}

// Answer is the answer to a Request.
type Answer struct {
	What     string
	Text     string    `json:",omitempty"`
	OS       string    `json:",omitempty"` // as Go names it, with Need and Run
	CPU      string    `json:",omitempty"`
	Machines []Machine `json:",omitempty"`
	Peers    []Peer    `json:",omitempty"`
	Twins    string    `json:",omitempty"` // why the ID of the agent that asks is not used
}

// Size is the number of bytes of a compressed program that follows.
type Size struct{ Bytes int64 }

// Peer is an agent and its addresses.
type Peer struct {
	ID    string
	Addrs []string // multiaddresses
	Life  string   `json:",omitempty"` // of the sender itself: differs in each process of an agent
}

// Machine describes a machine with an agent.
type Machine struct {
	Name    string `json:"name"` // on the roster, else the host's
	ID      string `json:"id"`
	Host    string `json:"host,omitempty"`
	Cores   int    `json:"cores,omitempty"`
	Free    int64  `json:"free_memory,omitempty"` // bytes
	Version string `json:"version,omitempty"`
	OS      string `json:"os,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	Jobs    int    `json:"jobs"`
	Here    bool   `json:"here,omitempty"`  // it is this machine
	Fault   string `json:"fault,omitempty"` // why it cannot be used
}

const (
	// MaxMessage is the maximum size of a Request or an Answer.
	MaxMessage = 1 << 20

	// MaxAddrs is the maximum number of addresses of a machine.
	MaxAddrs = 16

	// MaxProgram is the maximum size of a compressed program.
	MaxProgram = 1 << 30
)

// Fail returns the answer to a request that failed.
func Fail(format string, args ...any) Answer {
	return Answer{What: Failed, Text: fmt.Sprintf(format, args...)}
}
