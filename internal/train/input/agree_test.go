package input

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/trace"
)

// TestAgree gives the hosts, or ranks of a host, different files. The first rank of the other host must report the
// first file that differs.
func TestAgree(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1.csv", "2.csv"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte("click,site\n1,a\n0,b\n"), 0o600))
	}
	both, one := filepath.Join(dir, "*.csv"), filepath.Join(dir, "1.csv")
	for _, x := range []struct {
		data  [3]string // by rank
		hosts []string
		fails int    // rank, 0: none
		want  string // its error
	}{
		{[3]string{both, both, both}, []string{"a", "a", "b"}, 0, ""},
		{[3]string{both, both, one}, []string{"a", "a", "b"}, 2, "host b lacks " + dir + "/2.csv, which host a has; all hosts need the same files"},
		{[3]string{one, both, both}, []string{"a", "b", "b"}, 1, "host b has " + dir + "/2.csv, which host a lacks; "},
		{[3]string{one, one, both}, []string{"a", "a", "a"}, 2, "rank 2 has " + dir + "/2.csv, which rank 0 lacks: the files changed while the ranks started; start again"},
		{[3]string{both, one, both}, []string{"a", "a", "b"}, 1, "rank 1 lacks " + dir + "/2.csv, which rank 0 has: the files changed"},
		{[3]string{both, both, one}, nil, 2, "rank 2 lacks "},
		{[3]string{one, one, one}, nil, 0, ""},
	} {
		err := mem.Run(3, 2, func(comm *collective.Comm) error {
			own := x.data[comm.Rank()]
			c, err := config.Parse("test", []byte(fmt.Sprintf("data: {train: [%q], header: true}\nlabel: {field: click}\nfeatures: [{field: site, encode: hash}]\n", own)))
			if err != nil {
				return err
			}
			c.Fill()
			in, err := Open(Setup{Rank: shared.Rank{Comm: comm, Rec: trace.New(0)}, Config: c, Hosts: x.hosts})
			if err != nil {
				return err
			}
			want := ""
			if x.fails > 0 && comm.Rank() == x.fails {
				want = x.want
			}
			if err := in.Agree(); (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || errors.Is(err, ErrOtherFiles) != strings.HasPrefix(want, "host")) {
				return fmt.Errorf("%v on rank %d: %v, want %q", x, comm.Rank(), err, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDifference(t *testing.T) {
	of := func(name string, bytes int64, ends uint64) record.Sum {
		return record.Sum{Name: name, Bytes: bytes, Ends: ends}
	}
	for _, x := range []struct {
		own, other []record.Sum
		want       string
	}{
		{[]record.Sum{of("x", 1, 2)}, []record.Sum{of("x", 3, 2)}, "x has 1 bytes on host b and 3 bytes on host a"},
		{[]record.Sum{of("x", 1, 2)}, []record.Sum{of("x", 1, 3)}, "x has the same size but different content on hosts b and a"},
		{[]record.Sum{of("x", 1, 2), of("y", 1, 2)}, []record.Sum{of("y", 1, 2), of("x", 1, 2)}, "host b and host a list the files in different orders"},
	} {
		if got := difference(x.own, x.other, "host b", "host a"); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
