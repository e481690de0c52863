package online

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Parts are the flags of the parts of a loop, each of which runs alone.
type Parts struct {
	Join, Train, Serve []string
	Config             string // of the training
	Ranks              int    // 0: not given
	TLS                bool   // of the servers
	MetricsPort        int    // of the join; 0: none
	AdminPort          int    // of each server; 0: none
	Notes              []string

	file onlineConfig
}

// addresses are the flags of a server that its surroundings choose.
var addresses = []string{"host", "port", "rest-port", "rest_api_port"}

// ReadParts reads the configuration of wdlrun online, for other hosts. Its notes name what is not used there.
func ReadParts(path string) (p Parts, err error) {
	c, err := readOnline(path)
	if err != nil {
		return p, err
	}
	for _, x := range c.Launch {
		if fmt.Sprint(x.Key) != "np" {
			return p, fmt.Errorf("%s: launch.%v is for one host: leave it out", path, x.Key)
		}
		if p.Ranks, err = strconv.Atoi(fmt.Sprint(x.Value)); err != nil {
			return p, fmt.Errorf("%s: launch.np: %w", path, err)
		}
	}
	without := func(section yaml.MapSlice, names ...string) yaml.MapSlice {
		return slices.DeleteFunc(slices.Clone(section), func(x yaml.MapItem) bool { return slices.Contains(names, fmt.Sprint(x.Key)) })
	}
	p.file = c
	p.Join = append([]string{"-follow"}, flagsOf(c.Join)...)
	p.Train = flagsOf(without(c.Train, "config"))
	p.Serve = append([]string{"-wait"}, flagsOf(without(c.Serve, addresses...))...)
	p.Config, p.TLS = valueOf(c.Train, "config", ""), valueOf(c.Serve, "ssl_config_file", "") != ""
	for _, x := range []struct {
		key, address string
		port         *int
	}{{"join.metrics", valueOf(c.Join, "metrics", ""), &p.MetricsPort}, {"serve.admin", valueOf(c.Serve, "admin", ""), &p.AdminPort}} {
		host, port, err := net.SplitHostPort(x.address)
		if err != nil {
			continue // there is none, or the part reports it
		}
		*x.port, _ = strconv.Atoi(port)
		if ip := net.ParseIP(host); host == "localhost" || ip.IsLoopback() {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: other pods, such as Prometheus, do not reach %s: make it 0.0.0.0:%s", x.key, x.address, port))
		}
	}
	if c.Dir != "" {
		p.Notes = append(p.Notes, fmt.Sprintf("dir: %s is not used: -out has the run directory of the training, and kubectl logs has the logs", c.Dir))
	}
	if c.Web != "" {
		p.Notes = append(p.Notes, fmt.Sprintf("web: %s is not used: there is no page; kubectl get pods has the states, and /metrics has the versions that are served", c.Web))
	}
	var fixed []string
	for _, name := range addresses {
		if len(valuesOf(c.Serve, name)) > 0 {
			fixed = append(fixed, "serve."+name)
		}
	}
	if len(fixed) > 0 {
		p.Notes = append(p.Notes, strings.Join(fixed, " and ")+": not used: each server listens on ports 8500 (gRPC) and 8501 (REST) of its pod")
	}
	return p, nil
}

// Apart checks the configuration of the training with further settings, and returns a line for each part that does not
// read what the part before it writes. The parts run in the folder base.
func (p Parts) Apart(base string, settings []string) ([]string, error) {
	c, err := trainConfig(p.file.Train, settings...)
	if err != nil {
		return nil, err
	}
	return apart(base, c, valueOf(p.file.Join, "out", ""), valuesOf(p.file.Serve, "model")), nil
}
