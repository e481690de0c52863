package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// ofFormat returns the configuration of data in one of the formats of datatest.
func ofFormat(format string, train ...string) *config.Config {
	src, by := datatest.Fields(format)
	c := &config.Config{Data: src, Label: by.Label, Features: by.Features}
	c.Data.Train = train
	c.Fill()
	c.Train.Batch = 64
	return c
}

// onEach opens the data of one rank per element of hosts, with the given files on each, and
// calls f. It returns the error of each rank.
func onEach(hosts []string, configs []*config.Config, f func(in *Input) error) []error {
	key, errs := rank.NewKey(), make([]error, len(hosts))
	var all sync.WaitGroup
	for r, tr := range mem.New(len(hosts), 1) {
		all.Go(func() {
			comm := collective.New(tr)
			errs[r] = func() error {
				p, err := volumes.Open(volumes.Config{Comm: comm, Hosts: hosts, Key: key, Listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }})
				if err != nil {
					return err
				}
				defer p.Close()
				in, err := Open(Setup{Rank: shared.Rank{Comm: comm, Rec: trace.New(r)}, Config: configs[r], Shown: new(report.Status), Hosts: hosts, Volumes: p})
				if err == nil {
					err = in.Agree()
				}
				if err == nil {
					err = f(in)
				}
				return errors.Join(err, collective.Barrier(comm)) // the others may still read
			}()
		})
	}
	all.Wait()
	return errs
}

// epoch returns what an epoch in parts of global batches contains.
func epoch(in *Input, part, size int) (text string, err error) {
	if err := in.Survey(context.Background(), nil); err != nil {
		return "", err
	}
	r, err := in.PartReader(At{}, 1, part, size, 64)
	if err != nil {
		return "", err
	}
	defer r.Close()
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return fmt.Sprintf("%s %x%s", in.Train.Fingerprint(), in.Encoded, text), nil
		}
		if err != nil {
			return "", err
		}
		text += fmt.Sprint(b.RowID, b.Label, b.Sparse)
		r.Recycle(b)
	}
}

// TestEachHost: in every format, a training on files that are spread over hosts has the
// statistics, samples and fingerprint of one with all files in one place, by host and path. A
// host may have no file.
func TestEachHost(t *testing.T) {
	datatest.EveryFormat(t, func(t *testing.T, format, packing string) {
		of := func(lo, hi int) []byte { return datatest.Pack(t, packing, datatest.Numbered(t, format, lo, hi)) }
		a, b, c := datatest.Files(t, packing, of(0, 700), of(700, 701)), datatest.Files(t, packing, of(701, 1500)), t.TempDir()
		hosts, configs := []string{"b", "a", "a", "c"}, []*config.Config{}
		for _, dir := range []string{b, a, a, c} {
			own := ofFormat(format, filepath.Join(dir, "part-*"))
			own.Data.Hosts = "each"
			configs = append(configs, own)
		}
		want := make([]string, len(hosts))
		for _, err := range onEach([]string{"x"}, []*config.Config{ofFormat(format, a, b)}, func(in *Input) (err error) {
			for part := range want {
				if want[part], err = epoch(in, part, len(want)); err != nil {
					return err
				}
				if part+1 < len(want) {
					if in, err = Open(in.Setup); err != nil {
						return err
					}
				}
			}
			return nil
		}) {
			fatal.If(t, err)
		}
		for r, err := range onEach(hosts, configs, func(in *Input) error {
			me := in.Comm.Rank()
			if names := fmt.Sprint(in.Train.Names()); names != fmt.Sprintf("[a:%s/part-00%s a:%[1]s/part-01%[2]s b:%[3]s/part-00%[2]s]", a, packing, b) {
				return errors.New(names)
			}
			got, err := epoch(in, me, len(hosts))
			if err == nil && got != want[me] {
				err = fmt.Errorf("other samples: %.200s, want %.200s", got, want[me])
			}
			return err
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// TestEachHostFaults: each fault is one error, which names its host, on all ranks.
func TestEachHostFaults(t *testing.T) {
	csv := func(lo, hi int) []byte { return datatest.Numbered(t, "csv", lo, hi) }
	some, others, none := datatest.Files(t, ".csv", csv(0, 50)), datatest.Files(t, ".csv", csv(0, 60)), t.TempDir()
	foreign := datatest.Files(t, ".csv", []byte("PAR1 and so on"))
	for name, x := range map[string]struct {
		b    []string // of host b; host a has some/*
		a    []string
		want string
	}{
		"none":           {[]string{none + "/*.csv"}, []string{none + "/*.csv"}, "data.train: no host has a file of [" + none + "/*.csv]"},
		"a shared disk":  {[]string{some + "/*.csv"}, []string{some + "/*.csv"}, "data.train: hosts a and b have the same files, whose records would count twice: [" + some + "/part-00.csv]; set data.hosts: shared"},
		"another format": {[]string{foreign}, []string{some}, "b:" + foreign + "/part-00.csv is Parquet, not csv"},
		"a bad name":     {[]string{others, "ftp://x/y"}, []string{some}, "host b: data.train: ftp://x/y: ftp:// is not supported"},
	} {
		var configs []*config.Config
		for _, names := range [][]string{x.a, x.b} {
			c := ofFormat("csv", names...)
			c.Data.Hosts = "each"
			configs = append(configs, c)
		}
		for r, err := range onEach([]string{"a", "b"}, configs, func(*Input) error { return nil }) {
			if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), ErrOtherFiles.Error()) {
				t.Errorf("%s: rank %d: %v, want %q", name, r, err, x.want)
			}
			if name != "another format" && !errors.Is(err, ErrOtherFiles) {
				t.Errorf("%s: rank %d: %v may be different after a restart", name, r, err)
			}
		}
	}
}

// TestEachHostChanges: a file of another host that grows, is cut, is replaced or vanishes is an
// error that names host, file and cure.
func TestEachHostChanges(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"grows": func(path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("7,x,1\n")
				f.Close()
			}
			return err
		},
		"is cut": func(path string) error { return os.Truncate(path, 10) },
		"is replaced": func(path string) error {
			info, err := os.Stat(path)
			if err == nil {
				err = os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Nanosecond))
			}
			return err
		},
		"vanishes": os.Remove,
	} {
		dir := map[string]string{"a": datatest.Files(t, ".csv", datatest.Numbered(t, "csv", 0, 500)), "b": datatest.Files(t, ".csv", datatest.Numbered(t, "csv", 500, 900))}
		var configs []*config.Config
		for _, host := range []string{"a", "b"} {
			c := ofFormat("csv", dir[host])
			c.Data.Hosts = "each"
			configs = append(configs, c)
		}
		path := filepath.Join(dir["b"], "part-00.csv")
		errs := onEach([]string{"a", "b"}, configs, func(in *Input) error {
			err := collective.Barrier(in.Comm) // both have opened the files
			if err == nil && in.Comm.Rank() == 1 {
				err = spoil(path)
			}
			if e := collective.Barrier(in.Comm); err != nil || e != nil {
				return errors.Join(err, e)
			}
			if in.Comm.Rank() == 1 {
				return nil
			}
			_, err = in.Train.Scan(context.Background(), 0, 1, nil, nil)
			return err
		})
		cause := error(record.ErrChanged)
		if what == "vanishes" {
			cause = os.ErrNotExist
		}
		for _, want := range []string{"b:" + path, "read from host b", "start the job again"} {
			if errs[0] == nil || !errors.Is(errs[0], cause) || !strings.Contains(errs[0].Error(), want) {
				t.Errorf("%s: %v, want %q", what, errs[0], want)
			}
		}
	}
}

// TestEachHostIsOptional: ranks of one host, and hosts that share their data, list nothing.
func TestEachHostIsOptional(t *testing.T) {
	dir := datatest.Files(t, ".csv", datatest.Numbered(t, "csv", 0, 50))
	for how, hosts := range map[string][]string{"each": {"a", "a"}, "shared": {"a", "b"}} {
		c := ofFormat("csv", dir)
		c.Data.Hosts = how
		for _, err := range onEach(hosts, slices.Repeat([]*config.Config{c}, 2), func(in *Input) error {
			if names := in.Train.Names(); !slices.Equal(names, []string{dir + "/part-00.csv"}) {
				return fmt.Errorf("%s: %q", how, names)
			}
			return nil
		}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestGone: files that a job lacks are named with their host and the cure.
func TestGone(t *testing.T) {
	share := func(host string, n int, sum string) Share {
		return Share{host, n, []string{"x", "y", "z"}[:min(n, 3)], sum}
	}
	before := []Share{share("a", 1, "1"), share("b", 5, "2"), share("c", 0, "")}
	for _, x := range []struct {
		now  []Share
		on   string
		want string
	}{
		{before, "a b c", ""},
		{before[:2], "a b", ""},
		{before[:1], "a c", "host b is not in this job, and its files are gone: [x y z] and 2 more; start the job on host b too, or copy these files to another host"},
		{nil, "a", "host a had other files: [x]; host b is not in this job, and its files are gone: [x y z] and 2 more; start the job on host b too, or copy these files to another host"},
		{[]Share{before[0], share("b", 2, "3")}, "a b", "host b had other files: [x y z] and 2 more; restore these files"},
	} {
		if got := Gone(before, x.now, strings.Fields(x.on), false); got != x.want {
			t.Errorf("%v: %q, want %q", x.now, got, x.want)
		}
	}
	const inside = "host b is not in this job, and its files are gone: [x y z] and 2 more; start the job on host b too"
	if got := Gone(before, before[:1], []string{"a"}, true); got != inside {
		t.Errorf("inside an epoch: %q, want %q", got, inside)
	}
}
