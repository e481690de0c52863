package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/zeebo/xxh3"
)

// Lists of files in a configuration.
const (
	listTrain = iota
	listValid
	listTest
	numLists
)

// listNames are their keys.
var listNames = [numLists]string{"data.train", "data.valid", "data.test"}

// lists returns the names in each list.
func lists(c *config.Config) [numLists][]string {
	return [numLists][]string{c.Data.Train, c.Data.Valid, c.Data.Test}
}

// hostFiles are the local files of a host, by list.
type hostFiles struct {
	host  string
	Fault string `json:",omitempty"` // why they cannot be listed
	Files [numLists][]record.Listed
	Sums  [numLists][]record.Sum
}

// union is the data of several hosts that each have files of their own (data.hosts: each).
type union struct {
	*Input
	hosts []*hostFiles // by name; nil: all hosts have the same files
}

// unionError is a fault of the files of some hosts. errors.Is finds ErrOtherFiles, whose advice
// would be wrong here.
type unionError string

func (e unionError) Error() string        { return string(e) }
func (e unionError) Is(target error) bool { return target == ErrOtherFiles }

// union lists the files of every host, and makes the files of this host readable for the other
// hosts. It does nothing if the hosts share the data, or on one host. Otherwise it is collective.
func (in *Input) union() (u union, err error) {
	u.Input = in
	if !in.Config.Data.EachHost() || in.Comm == nil || len(in.Hosts) != in.Comm.Size() {
		return u, nil
	}
	if len(slices.Compact(slices.Clone(in.Hosts))) == 1 { // its files have been compared with the other hosts' files
		h := listed(in.Config)
		h.host = in.Hosts[0]
		in.Shares = []Share{h.share()}
		return u, nil
	}
	if in.Volumes == nil {
		return u, errors.New("data.hosts: each: the ranks of this job cannot read files of other hosts: use a shared file system, with data.hosts: shared")
	}
	me := in.Comm.Rank()
	var own []byte // empty except on the first rank of a host
	if slices.Index(in.Hosts, in.Hosts[me]) == me {
		if own, err = json.Marshal(listed(in.Config)); err != nil {
			return u, err
		}
	}
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, own, maxShare)
	if err != nil {
		return u, err
	}
	in.Rec.Enter(trace.Scan)
	for r, b := range all {
		if slices.Index(in.Hosts, in.Hosts[r]) != r {
			continue
		}
		h := &hostFiles{host: in.Hosts[r]}
		if err := json.Unmarshal(b, h); err != nil {
			return u, fmt.Errorf("files of host %s: %w", h.host, err)
		}
		if h.Fault != "" {
			return u, unionError(fmt.Sprintf("host %s: %s", h.host, h.Fault))
		}
		u.hosts = append(u.hosts, h)
	}
	slices.SortFunc(u.hosts, func(a, b *hostFiles) int { return strings.Compare(a.host, b.host) })
	if err := u.check(); err != nil {
		return u, err
	}
	for _, h := range u.hosts {
		u.Shares = append(u.Shares, h.share())
	}
	return u, u.serve()
}

// listed lists the local files of this host that a configuration names.
func listed(c *config.Config) (h hostFiles) {
	for i, names := range lists(c) {
		files, err := record.List(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !record.IsLocal(name) }))
		if err == nil {
			h.Sums[i], err = record.Sums(files, true)
		}
		if err != nil {
			return hostFiles{Fault: fmt.Sprintf("%s: %v", listNames[i], err)}
		}
		for j := range files {
			h.Files[i] = append(h.Files[i], files[j].Listed())
		}
	}
	return h
}

// check returns an error if no host has files, or two have the same ones.
func (u union) check() error {
	for i, names := range lists(u.Config) {
		n, names := 0, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !record.IsLocal(name) })
		for j, h := range u.hosts {
			n += len(h.Files[i])
			for _, other := range u.hosts[:j] {
				if len(h.Sums[i]) > 0 && slices.Equal(h.Sums[i], other.Sums[i]) {
					return unionError(fmt.Sprintf("%s: hosts %s and %s have the same files, whose records would count twice: %s; set data.hosts: shared if the hosts share a disk or have copies, or keep these files on one host",
						listNames[i], other.host, h.host, FirstFew(h.paths(i))))
				}
			}
		}
		if n == 0 && len(names) > 0 {
			wd, _ := os.Getwd()
			return unionError(fmt.Sprintf("%s: no host has a file of %s; relative names count from %s on each host", listNames[i], FirstFew(names), wd))
		}
		if n > record.MaxFiles {
			return fmt.Errorf("%s: more than %d files on all hosts; join them into fewer, larger ones", listNames[i], record.MaxFiles)
		}
		if n > 0 {
			u.Say(fmt.Sprintf("%s is on %d hosts: %s", listNames[i], len(u.hosts), u.shares(i)))
		}
	}
	return nil
}

// shares describes what each host has of a list.
func (u union) shares(i int) string {
	var all []string
	for _, h := range u.hosts {
		bytes := int64(0)
		for _, f := range h.Files[i] {
			bytes += f.Bytes
		}
		files := "files"
		if len(h.Files[i]) == 1 {
			files = "file"
		}
		all = append(all, fmt.Sprintf("%s has %d %s (%.3g MB)", h.host, len(h.Files[i]), files, float64(bytes)/1e6))
	}
	return strings.Join(all, ", ")
}

// paths returns the paths of the files in a list.
func (h *hostFiles) paths(i int) (all []string) {
	for _, f := range h.Files[i] {
		all = append(all, f.Path)
	}
	return all
}

// serve serves the files of this host.
func (u union) serve() error {
	var paths []string
	for _, h := range u.hosts {
		if h.host == u.Hosts[u.Comm.Rank()] {
			for i := range h.Files {
				paths = append(paths, h.paths(i)...)
			}
		}
	}
	u.Rec.Enter(trace.Wait)
	defer u.Rec.Enter(trace.Scan)
	return u.Volumes.Serve(paths)
}

// open opens the files of a list, which may lack columns of Lacks, and if they are evaluated those of features.
func (u union) open(list int, evaluates bool) (*record.Set, error) {
	files, err := u.files(list)
	if err != nil {
		return nil, err
	}
	files.Lack(u.Lacks)
	if evaluates {
		files.Lack(u.without(files))
	}
	return files, nil
}

// without returns the fields of features that no file has, if the files have others of them: records to evaluate may
// be older than a feature. warnOfAbsent names them.
func (u union) without(files *record.Set) []string {
	src := u.Config.Data
	src.Where = ""
	inputs := src.Reads(u.Use.Schema(u.Config).Unlabelled().Fields())
	lacks := slices.DeleteFunc(slices.Clone(inputs), func(name string) bool { return slices.Contains(files.Fields, name) })
	if len(lacks) == len(inputs) {
		return nil
	}
	return lacks
}

// files opens the files of a list: first those that are the same on every host, such as remote
// files, then the local files of each host.
func (u union) files(list int) (*record.Set, error) {
	names, src := lists(u.Config)[list], u.Config.Data
	switch {
	case list == listTrain && !u.Use.Evaluates:
		src = src.With(src.TrainWhere)
	case list == listValid:
		src = src.With(src.ValidWhere)
	}
	switch {
	case u.hosts == nil && u.Part:
		return record.OpenPart(src, names)
	case u.hosts == nil:
		return record.OpenSelected(src, names)
	}
	var files []record.File
	if common := slices.DeleteFunc(slices.Clone(names), record.IsLocal); len(common) > 0 {
		var err error
		if files, err = record.Resolve(common); err != nil {
			return nil, err
		}
	}
	own := u.Hosts[u.Comm.Rank()]
	for _, h := range u.hosts {
		for _, l := range h.Files[list] {
			var away func() record.Content
			if h.host != own {
				away = func() record.Content { return u.Volumes.Data(h.host, l) }
			}
			f, err := l.At(h.host, away)
			if err != nil {
				return nil, fmt.Errorf("files of host %s: %w", h.host, err)
			}
			files = append(files, f)
		}
	}
	return record.OpenFound(src, files)
}

// ErrOtherFiles means that the files of the hosts do not suit data.hosts. A restart would find
// the same files.
var ErrOtherFiles = errors.New("all hosts need the same files: use a shared file system, or copy the files")

// share returns the share of a host.
func (h *hostFiles) share() Share {
	sum := xxh3.New()
	for _, f := range h.Files[listTrain] {
		fmt.Fprintf(sum, "%q %d\n", f.Path, f.Bytes)
	}
	all := h.paths(listTrain)
	return Share{h.host, len(all), all[:min(len(all), fewNames)], fmt.Sprintf("%016x", sum.Sum64())}
}
