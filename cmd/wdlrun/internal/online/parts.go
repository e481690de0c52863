package online

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
)

// Parts are the flags of the parts of a loop, each of which runs alone.
type Parts struct {
	Join, Train, Serve []string
	Config             string // of the training
	Ranks              int    // 0: not given
	TLS                bool   // of the servers
}

// addresses are the flags of a server that its surroundings choose.
var addresses = []string{"host", "port", "rest-port", "rest_api_port"}

// ReadParts reads the configuration of wdlrun online, for other hosts.
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
	p.Join = append([]string{"-follow"}, flagsOf(c.Join)...)
	p.Train = flagsOf(without(c.Train, "config"))
	p.Serve = append([]string{"-wait"}, flagsOf(without(c.Serve, addresses...))...)
	p.Config, p.TLS = valueOf(c.Train, "config", ""), valueOf(c.Serve, "ssl_config_file", "") != ""
	return p, nil
}
