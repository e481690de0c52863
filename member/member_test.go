package member_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// env returns the environment of a rank of a job on one host.
func env(r, size int, dir string, key rank.Key) func(string) string {
	vars := map[string]string{
		"WDLRUN_RANK": strconv.Itoa(r), "WDLRUN_SIZE": strconv.Itoa(size),
		"WDLRUN_LOCAL_RANK": strconv.Itoa(r), "WDLRUN_LOCAL_SIZE": strconv.Itoa(size),
		"WDLRUN_RENDEZVOUS": dir, "WDLRUN_JOB": "test", "WDLRUN_KEY": key.Hex(),
	}
	return func(name string) string { return vars[name] }
}

// join lets size ranks join, each with its options. It returns the transport and the error of
// each rank. The error also covers a wrong sum over all ranks.
func join(t *testing.T, key rank.Key, opts []member.Options) (transports []string, errs []error) {
	t.Helper()
	return joinAnd(t, key, opts, func(*member.Member) {})
}

// joinAnd is like join and passes every member to look.
func joinAnd(t *testing.T, key rank.Key, opts []member.Options, look func(*member.Member)) (transports []string, errs []error) {
	t.Helper()
	size, dir := len(opts), t.TempDir()
	transports, errs = make([]string, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			m, err := member.Join(context.Background(), env(r, size, dir, key), opts[r])
			if err != nil {
				errs[r] = err
				return
			}
			defer m.Close()
			transports[r] = m.Transport
			look(m)
			x := []float32{float32(r)}
			err = collective.AllReduce(m.Comm, x, collective.Sum)
			if want := float32(size*(size-1)) / 2; err == nil && x[0] != want {
				err = fmt.Errorf("sum is %v, want %v", x[0], want)
			}
			errs[r] = errors.Join(err, m.Done(nil))
		})
	}
	wg.Wait()
	return transports, errs
}

// TestRanksOfOneHostShareMemoryUnlessConfiguredOtherwise: the ranks of one host use shared
// memory, unless TCP is requested.
func TestRanksOfOneHostShareMemoryUnlessConfiguredOtherwise(t *testing.T) {
	for _, k := range []struct{ asked, got string }{{"", member.Shared}, {member.Shared, member.Shared}, {member.TCP, member.TCP}} {
		opt := member.Options{Transport: k.asked, Warn: func(line string) { t.Errorf("unexpected warning: %s", line) }}
		transports, errs := join(t, rank.NewKey(), []member.Options{opt, opt, opt})
		for r := range transports {
			if errs[r] != nil || transports[r] != k.got {
				t.Errorf("asked for %q, rank %d got %q, %v", k.asked, r, transports[r], errs[r])
			}
		}
	}
}

// TestRanksFallBackTogether: if one rank cannot open its socket, all ranks use TCP.
func TestRanksFallBackTogether(t *testing.T) {
	key := rank.NewKey()
	squatter, err := shm.Listen(shm.Config{Rank: 1, Size: 3, Key: key.Derive("shared memory")})
	if err != nil {
		t.Skip(err)
	}
	defer squatter.Close()
	var lines []string
	opt := member.Options{Warn: func(line string) { lines = append(lines, line) }}
	transports, errs := join(t, key, []member.Options{opt, opt, opt})
	for r := range transports {
		if errs[r] != nil || transports[r] != member.TCP {
			t.Errorf("rank %d got %q, %v", r, transports[r], errs[r])
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "TCP on this host: rank 1 cannot share memory: shm: listen: rank 1") {
		t.Errorf("warnings: %q", lines)
	}
	opt.Transport = member.Shared
	_, errs = join(t, key, []member.Options{opt, opt, opt})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "cannot share memory") {
			t.Errorf("rank %d, which requires shared memory: %v", r, err)
		}
	}
}

// TestARankThatCannotListen: on several hosts, all ranks use TCP if one cannot open its socket.
// The warning names it. The other rank of its host does not wait for its connection.
func TestARankThatCannotListen(t *testing.T) {
	key := rank.NewKey()
	squatter, err := shm.Listen(shm.Config{Rank: 1, Size: 2, Key: key.Derive("shared memory of host 1")})
	if err != nil {
		t.Skip(err)
	}
	defer squatter.Close()
	var lines []string
	opts := make([]member.Options, 4)
	for r := range opts {
		opts[r] = member.Options{Host: "aabb"[r : r+1], Warn: func(line string) { lines = append(lines, line) }}
	}
	transports, errs := join(t, key, opts)
	for r := range transports {
		if errs[r] != nil || transports[r] != member.TCP {
			t.Errorf("rank %d got %q, %v", r, transports[r], errs[r])
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "TCP inside their hosts too: rank 3 cannot share memory: shm: listen: rank 1") {
		t.Errorf("warnings: %q", lines)
	}
}

// TestHostsOfSeveralRanks gives ranks other host names and checks which transport they choose.
func TestHostsOfSeveralRanks(t *testing.T) {
	for _, k := range []struct {
		hosts string // a letter for each rank
		got   string
	}{
		{"aabb", member.Hosts}, {"abab", member.Hosts}, {"aabbb", member.Hosts}, {"aab", member.TCP}, {"ab", member.TCP}, {"aa", member.Shared},
	} {
		opts := make([]member.Options, len(k.hosts))
		for r := range opts {
			opts[r] = member.Options{Host: k.hosts[r : r+1], Warn: func(line string) { t.Errorf("unexpected warning: %s", line) }}
		}
		transports, errs := join(t, rank.NewKey(), opts)
		for r := range opts {
			if errs[r] != nil || transports[r] != k.got {
				t.Errorf("hosts %s: rank %d got %q, %v; want %q", k.hosts, r, transports[r], errs[r], k.got)
			}
			opts[r].Transport = member.Shared
		}
		if k.got == member.Shared {
			continue
		}
		for r, err := range second(join(t, rank.NewKey(), opts)) {
			if err == nil || !strings.Contains(err.Error(), "ranks are on 2 hosts") {
				t.Errorf("hosts %s: rank %d, which requires shared memory: %v", k.hosts, r, err)
			}
		}
	}
}

func second(_ []string, errs []error) []error { return errs }

// TestCostsAreMeasured: all ranks have the same costs, measured over TCP. With shared memory
// there is no choice of algorithm.
func TestCostsAreMeasured(t *testing.T) {
	for _, transport := range []string{member.Auto, member.TCP} {
		found := make([]collective.Costs, 3)
		opt := member.Options{Transport: transport}
		_, errs := joinAnd(t, rank.NewKey(), []member.Options{opt, opt, opt}, func(m *member.Member) { found[m.World.Rank] = m.Comm.Costs() })
		fatal.If(t, errors.Join(errs...))
		if found[1] != found[0] || found[2] != found[0] || transport == member.TCP && found[0] == collective.DefaultCosts() {
			t.Errorf("%s: the costs of the ranks are %v", transport, found)
		}
	}
}

// TestEncryptedGroup: a group with encrypted links computes correct sums.
func TestEncryptedGroup(t *testing.T) {
	opt := member.Options{Transport: member.TCP, Encrypt: true}
	_, errs := join(t, rank.NewKey(), []member.Options{opt, opt, opt})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestLinksOfTheLauncher: variables of the environment apply if the options are not set.
func TestLinksOfTheLauncher(t *testing.T) {
	for _, k := range []struct {
		said, asked string // transports
		streams     string
		want, fault string
	}{
		{member.TCP, "", "2", member.TCP, ""},
		{"pigeon", member.TCP, "1", member.TCP, ""}, // the option overrides the invalid variable
		{"pigeon", "", "1", "", `transport "pigeon" is unknown; there are auto, shm and tcp: change WDLRUN_TRANSPORT or unset it`},
		{member.TCP, "", "99", "", "99 streams: give 1 to 16: change WDLRUN_STREAMS or unset it"},
		{member.TCP, "", "x", "", `WDLRUN_STREAMS="x"`},
	} {
		said := env(0, 1, t.TempDir(), rank.NewKey())
		getenv := func(name string) string {
			if v, ok := map[string]string{"WDLRUN_TRANSPORT": k.said, "WDLRUN_STREAMS": k.streams}[name]; ok {
				return v
			}
			return said(name)
		}
		m, err := member.Join(context.Background(), getenv, member.Options{Transport: k.asked})
		if k.fault != "" {
			if err == nil || !strings.Contains(err.Error(), k.fault) {
				t.Errorf("%+v: %v", k, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", k, err)
		}
		if m.Transport != k.want {
			t.Errorf("%+v: %s", k, m.Transport)
		}
		if err := errors.Join(m.Done(nil), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestHalfEncryptedGroupIsRefused: if only some ranks request encryption, joining fails with the
// reason.
func TestHalfEncryptedGroupIsRefused(t *testing.T) {
	plain := member.Options{Transport: member.TCP}
	_, errs := join(t, rank.NewKey(), []member.Options{plain, {Transport: member.TCP, Encrypt: true}})
	if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "choice of encryption") {
		t.Errorf("%v, want the choice of encryption named", err)
	}
}

// TestDifferentTransportsAreRefused: if ranks request different transports, joining fails with
// the reason. An unknown transport is rejected.
func TestDifferentTransportsAreRefused(t *testing.T) {
	_, errs := join(t, rank.NewKey(), []member.Options{{Transport: member.TCP}, {}})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "different transports") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if _, err := member.Join(context.Background(), func(string) string { return "" }, member.Options{Transport: "pigeon"}); err == nil {
		t.Error("joined by pigeon")
	}
}
