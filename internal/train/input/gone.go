package input

import (
	"fmt"
	"slices"
	"strings"
)

// Share describes the files of data.train that one host has, with data.hosts: each.
type Share struct {
	Host  string   `json:"host"`
	Files int      `json:"files"`
	First []string `json:"first"` // the first few paths
	Sum   string   `json:"sum"`   // hash of all paths and sizes
}

// Gone describes the files that a training had before and now lacks, with the cure; "": none.
// ranksOn are the hosts of the present job. Inside an epoch, files must be on their former host,
// which determines the order of samples.
func Gone(before, now []Share, ranksOn []string, inside bool) string {
	var faults, hosts []string
	for _, was := range before {
		is := slices.IndexFunc(now, func(s Share) bool { return s.Host == was.Host })
		names := fmt.Sprint(was.First)
		if more := was.Files - len(was.First); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		switch {
		case was.Files == 0 || is >= 0 && now[is].Sum == was.Sum:
			continue
		case slices.Contains(ranksOn, was.Host):
			faults = append(faults, fmt.Sprintf("host %s had other files: %s", was.Host, names))
		default:
			faults = append(faults, fmt.Sprintf("host %s is not in this job, and its files are gone: %s", was.Host, names))
			hosts = append(hosts, was.Host)
		}
	}
	switch {
	case len(faults) == 0:
		return ""
	case len(hosts) == 0:
		return strings.Join(faults, "; ") + "; restore these files"
	}
	cure := fmt.Sprintf("start the job on host %s too", strings.Join(hosts, " and "))
	if !inside {
		cure += ", or copy these files to another host"
	}
	return strings.Join(faults, "; ") + "; " + cure
}
