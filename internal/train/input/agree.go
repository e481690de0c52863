package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/trace"
)

// Agree compares the data files of the ranks of a job. All ranks compare names and sizes, because files
// may have changed between the moments at which they listed them. The first ranks of hosts also compare hashes
// of the first and last bytes. A rank that has other files than rank 0 returns an error that names
// the rank or the host, and the first file that differs; of a host whose files differ, only its first rank does.
// Agree does nothing if each host has files of its own (data.hosts: each).
func (in *Input) Agree() error {
	me := in.Comm.Rank()
	if in.Config.Data.EachHost() || in.Comm.Size() == 1 {
		return nil
	}
	hosts := in.Hosts
	if len(hosts) != in.Comm.Size() {
		hosts = make([]string, in.Comm.Size()) // one
	}
	first := slices.Index(hosts, hosts[me])
	several := len(slices.Compact(slices.Clone(hosts))) > 1
	own, err := in.sums(several && first == me)
	if err != nil {
		return err
	}
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	listing := sha256.New()
	for _, s := range own {
		fmt.Fprintf(listing, "%s\n%d\n", s.Name, s.Bytes)
	}
	sum := sha256.Sum256(text)
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, append(listing.Sum(nil), sum[:]...), 2*sha256.Size)
	if err != nil {
		return err
	}
	differs := func(r int) bool { // from rank 0
		if slices.Index(hosts, hosts[r]) != r {
			return !bytes.Equal(all[r][:sha256.Size], all[0][:sha256.Size])
		}
		return !bytes.Equal(all[r], all[0])
	}
	one := true
	for r := range all {
		one = one && !differs(r)
	}
	if one {
		return nil
	}
	if text, err = collective.BroadcastBytes(in.Comm, text, 0, maxShare); err != nil {
		return err
	}
	in.Rec.Enter(trace.Scan)
	if !differs(me) || me != first && differs(first) {
		return nil // another rank ends the job
	}
	var other []record.Sum
	if err := json.Unmarshal(text, &other); err != nil {
		return fmt.Errorf("files of rank 0: %w", err)
	}
	if me == first {
		return fmt.Errorf("%s; %w", difference(own, other, "host "+hosts[me], "host "+hosts[0]), ErrOtherFiles)
	}
	for i := range other {
		other[i].Ends = 0
	}
	return fmt.Errorf("%s: the files changed while the ranks started; start again, and give a new file its name when it is complete", difference(own, other, fmt.Sprintf("rank %d", me), "rank 0"))
}

// sums returns the sums of the files of all datasets, without Ends unless they are asked for.
func (in *Input) sums(ends bool) (all []record.Sum, err error) {
	in.Rec.Enter(trace.Scan)
	for _, d := range in.datasets() {
		of, err := d.Sums(ends)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// difference describes the first file that differs between two hosts or ranks.
func difference(own, other []record.Sum, here, there string) string {
	mine := map[string]record.Sum{}
	for _, s := range own {
		mine[s.Name] = s
	}
	for _, o := range other {
		s, ok := mine[o.Name]
		switch {
		case !ok:
			return fmt.Sprintf("%s lacks %s, which %s has", here, o.Name, there)
		case s.Bytes != o.Bytes:
			return fmt.Sprintf("%s has %d bytes on %s and %d bytes on %s", o.Name, s.Bytes, here, o.Bytes, there)
		case s.Ends != o.Ends:
			name := func(of string) string { return strings.TrimPrefix(of, "host ") } // one rank of a host compares contents
			return fmt.Sprintf("%s has the same size but different content on hosts %s and %s", o.Name, name(here), name(there))
		}
	}
	for _, o := range other {
		delete(mine, o.Name)
	}
	for _, s := range own {
		if _, ok := mine[s.Name]; ok {
			return fmt.Sprintf("%s has %s, which %s lacks", here, s.Name, there)
		}
	}
	return fmt.Sprintf("%s and %s list the files in different orders", here, there)
}
