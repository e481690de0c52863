package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/trace"
)

// Agree compares the data files of the hosts of a job: names, sizes, and hashes of the first and
// last bytes. If a host has other files than rank 0, its first rank returns an error that names
// the host and the first file that differs. Agree does nothing on one host, and if each host has
// files of its own (data.hosts: each).
func (in *Input) Agree() error {
	if in.Config.Data.EachHost() || len(in.Hosts) != in.Comm.Size() || len(slices.Compact(slices.Clone(in.Hosts))) == 1 {
		return nil
	}
	host := in.Hosts[in.Comm.Rank()]
	var own []record.Sum
	var text, digest []byte // empty except on the first rank of a host
	if slices.Index(in.Hosts, host) == in.Comm.Rank() {
		var err error
		if own, err = in.sums(); err != nil {
			return err
		}
		if text, err = json.Marshal(own); err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		digest = sum[:]
	}
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, digest, sha256.Size)
	if err != nil {
		return err
	}
	differs := func(b []byte) bool { return len(b) > 0 && !bytes.Equal(b, all[0]) }
	if !slices.ContainsFunc(all, differs) {
		return nil
	}
	if text, err = collective.BroadcastBytes(in.Comm, text, 0, maxShare); err != nil {
		return err
	}
	in.Rec.Enter(trace.Scan)
	if !differs(digest) {
		return nil // a rank of another host ends the job
	}
	var first []record.Sum
	if err := json.Unmarshal(text, &first); err != nil {
		return fmt.Errorf("files of rank 0: %w", err)
	}
	return fmt.Errorf("%s; %w", difference(own, first, host, in.Hosts[0]), ErrOtherFiles)
}

// sums returns the sums of the files of all datasets.
func (in *Input) sums() (all []record.Sum, err error) {
	in.Rec.Enter(trace.Scan)
	for _, d := range in.datasets() {
		of, err := d.Sums()
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// difference describes the first file that differs between host and the first host.
func difference(own, other []record.Sum, host, first string) string {
	mine := map[string]record.Sum{}
	for _, s := range own {
		mine[s.Name] = s
	}
	for _, o := range other {
		s, ok := mine[o.Name]
		switch {
		case !ok:
			return fmt.Sprintf("host %s lacks %s, which host %s has", host, o.Name, first)
		case s.Bytes != o.Bytes:
			return fmt.Sprintf("%s has %d bytes on host %s and %d bytes on host %s", o.Name, s.Bytes, host, o.Bytes, first)
		case s.Ends != o.Ends:
			return fmt.Sprintf("%s has the same size but different content on hosts %s and %s", o.Name, host, first)
		}
	}
	for _, o := range other {
		delete(mine, o.Name)
	}
	for _, s := range own {
		if _, ok := mine[s.Name]; ok {
			return fmt.Sprintf("host %s has %s, which host %s lacks", host, s.Name, first)
		}
	}
	return fmt.Sprintf("hosts %s and %s list the files in different orders", host, first)
}
