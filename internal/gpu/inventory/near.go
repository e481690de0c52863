package inventory

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Near describes how near a device is to a rank. Larger numbers are nearer; 0 is unknown or
// far.
type Near struct {
	CPUs int // how many CPUs of the rank are near the device
	Card int // how near the rank's network card is: the buses in common, and 1 for the NUMA node
}

// Near returns the nearness of d to CPUs and to a network interface, whose name may be "".
func (d Device) Near(cpus []int, network string) Near { return d.near(cpus, network, "/sys") }

func (d Device) near(cpus []int, network, sys string) (n Near) {
	for _, c := range cpus {
		if slices.Contains(d.CPUs, c) {
			n.CPUs++
		}
	}
	if d.Bus == nil || network == "" {
		return n
	}
	own, err := filepath.EvalSymlinks(filepath.Join(sys, "bus/pci/devices", address(*d.Bus)))
	if err != nil {
		return n
	}
	card, err := filepath.EvalSymlinks(filepath.Join(sys, "class/net", network, "device"))
	if err != nil {
		return n // such as a virtual interface
	}
	n.Card = common(sys, own, card)
	if a, b := nodeOf(own), nodeOf(card); a >= 0 && a == b {
		n.Card++
	}
	return n
}

// address returns an address on the PCI bus as Linux writes it: NVML's domain has 8 digits.
func address(bus string) string {
	bus = strings.ToLower(bus)
	if domain, rest, found := strings.Cut(bus, ":"); found {
		if n, err := strconv.ParseUint(domain, 16, 32); err == nil {
			return fmt.Sprintf("%04x:%s", n, rest)
		}
	}
	return filepath.Base(bus)
}

// common counts the buses and bridges above both devices.
func common(sys, a, b string) (n int) {
	sys, _ = filepath.EvalSymlinks(sys)
	root := filepath.Join(sys, "devices") + "/"
	x, y := strings.Split(strings.TrimPrefix(a, root), "/"), strings.Split(strings.TrimPrefix(b, root), "/")
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// nodeOf returns the NUMA node of a device, -1 if it is unknown.
func nodeOf(device string) int {
	b, err := regular.ReadFile(filepath.Join(device, "numa_node"), 64)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// InterfaceOf returns the name of the network interface with an address, "" if there is none.
func InterfaceOf(ip string) string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().String() == ip {
				return i.Name
			}
		}
	}
	return ""
}
