package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestParseHosts: the argument of -H is parsed, and invalid hosts are rejected.
func TestParseHosts(t *testing.T) {
	for _, c := range []struct {
		list string
		want []Host
		err  string
	}{
		{"a", []Host{{"a", 1, 0}}, ""},
		{"a:2,b:4", []Host{{"a", 2, 0}, {"b", 4, 0}}, ""},
		{"a,b,a,A:3", []Host{{"a", 5, 0}, {"b", 1, 0}}, ""},
		{" a:2 , node-1.example.org ", []Host{{"a", 2, 0}, {"node-1.example.org", 1, 0}}, ""},
		{"10.0.0.1:2,[::1]:3,fe80::1", []Host{{"10.0.0.1", 2, 0}, {"::1", 3, 0}, {"fe80::1", 1, 0}}, ""},
		{"", nil, `entry 1: "" is not a name`},
		{"a,,b", nil, `entry 2: "" is not a name`},
		{"a:", nil, "the number of slots is missing"},
		{"a:0", nil, `"0" is not a number of slots`},
		{"a:-1", nil, `"-1" is not a number of slots`},
		{"a:x", nil, `"x" is not a number of slots`},
		{"a:99999999999", nil, "is not a number of slots"},
		{"a:65536,a", nil, "host a has more than 65536 slots"},
		{"[::1:2", nil, "no closing bracket"},
		{"[::1]2", nil, "after the bracket comes :SLOTS"},
		{"[::1]:", nil, "the number of slots is missing"},
		{"a:b:2", nil, `"a:b:2" is not a name`},
		{"-oProxyCommand=x", nil, "is not a name"},
		{"a b", nil, "is not a name"},
	} {
		got, err := parseHosts(c.list)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v %v\nwant %v %s", c.list, got, err, c.want, c.err)
		}
	}
}

// TestReadHostfile: the formats of hostfiles are parsed, and invalid lines are rejected.
func TestReadHostfile(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Host
		err  string
	}{
		{"# the cluster\n\na slots=2 # two\n b  slots = 4  max_slots=6\nc:3\nd\na slots=1\n",
			[]Host{{"a", 3, 0}, {"b", 4, 6}, {"c", 3, 0}, {"d", 1, 0}}, ""},
		{"localhost\n", []Host{{"localhost", runtime.NumCPU(), 0}}, ""},
		{"localhost max-slots=1", []Host{{"localhost", 1, 1}}, ""},
		{"a\r\nb slots=2\r\n", []Host{{"a", 1, 0}, {"b", 2, 0}}, ""},
		{"a slots=2\nb slots=x\n", nil, `hf:2: slots: "x" is not a number of slots`},
		{"a slot=2\n", nil, `hf:1: "slot=2" is not understood`},
		{"a slots\n", nil, `hf:1: slots: "" is not a number`},
		{"\n\na:2 slots=3\n", nil, "hf:3: the slots of a are given twice"},
		{"a slots=4 max_slots=2\n", nil, "hf:1: max_slots=2 is below slots=4"},
		{"# nothing\n", nil, "hf: no host in it"},
		{"", nil, "hf: no host in it"},
		{"a\n" + strings.Repeat("b", 70000) + "\n", nil, "hf:2: a line of more than 65536 bytes: is it a hostfile?"},
		{strings.Repeat("#\n", maxHostfile), nil, "hf: more than 4194304 bytes"},
	} {
		got, err := readHostfile("hf", strings.NewReader(c.text))
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.60q: %v %v\nwant %v %s", c.text, got, err, c.want, c.err)
		}
	}
}

// TestHosts: -H and -hostfile give the hosts of a job, and cannot be combined.
func TestHosts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts")
	fatal.If(t, os.WriteFile(file, []byte("a slots=2\n"), 0o600))
	for _, c := range []struct {
		list, file string
		want       []Host
		err        string
	}{
		{"", "", nil, ""},
		{"a:2", "", []Host{{"a", 2, 0}}, ""},
		{"", file, []Host{{"a", 2, 0}}, ""},
		{"a:2", file, nil, "give one"},
		{"", file + "x", nil, "no such file"},
		{"", dir, nil, "is a directory"},
	} {
		got, err := Hosts(c.list, c.file)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q %q: %v %v", c.list, c.file, got, err)
		}
	}
}

// TestLocalHosts: names and addresses of this machine are local hosts.
func TestLocalHosts(t *testing.T) {
	own, err := os.Hostname()
	fatal.If(t, err)
	for name, want := range map[string]bool{"localhost": true, "LocalHost": true, "127.0.0.1": true, "::1": true, own: true, strings.ToUpper(own): true, "far.example": false, "10.9.8.7": false} {
		if got := (Host{Name: name}).Local(); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzReadHostfile: a hostfile gives valid hosts or an error.
func FuzzReadHostfile(f *testing.F) {
	f.Add("a slots=2 # x\n[::1]:3\nb max_slots=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := readHostfile("f", strings.NewReader(text))
		if err == nil && len(hosts) == 0 {
			t.Error("no hosts and no error")
		}
		for _, h := range hosts {
			if h.Name == "" || h.Slots < 1 {
				t.Errorf("%+v", h)
			}
		}
	})
}

// TestPlace: ranks fill the slots of one host after another, and too many ranks are rejected.
func TestPlace(t *testing.T) {
	ab := []Host{{"a", 2, 0}, {"b", 4, 5}}
	for _, c := range []struct {
		np    int
		hosts []Host
		over  bool
		want  string // as host:ranks
		err   string
	}{
		{0, nil, false, "localhost:1", ""},
		{5, nil, false, "localhost:5", ""},
		{0, ab, false, "a:2 b:4", ""},
		{1, ab, false, "a:1", ""},
		{3, ab, false, "a:2 b:1", ""},
		{7, ab, false, "", "-np 7 needs as many slots, and the hosts have 6 slots: "},
		{9, ab, true, "a:4 b:5", ""},
		{2, []Host{{"127.0.0.1", 1, 0}, {"far", 1, 0}, {"localhost", 1, 0}}, false, "127.0.0.1:2", ""},
		{2, []Host{{"b", 1, 0}}, false, "", "and the hosts have 1 slot: "},
		{4, []Host{{"b", 3, 3}}, true, "", "-np 4 is more than max_slots of all hosts allow: 3"},
		{3, []Host{{"b", 4, 2}}, false, "", "-np 3 needs as many slots, and the hosts have 2 slots: "},
		{-1, nil, false, "", "-np -1"},
		{1 << 20, nil, false, "", "-np 1048576"},
		{0, []Host{{"a", 65536, 0}, {"b", 1, 0}}, false, "", "the hosts have 65537 slots"},
	} {
		p, err := Place(c.np, c.hosts, c.over, BySlot)
		var got []string
		for _, r := range p.Ranks {
			if r.LocalRank == 0 {
				got = append(got, fmt.Sprintf("%s:%d", r.Host, r.LocalSize))
			}
		}
		if s := strings.Join(got, " "); s != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%d on %v: %s %v\nwant %s %s", c.np, c.hosts, s, err, c.want, c.err)
		}
	}
}

// TestPlaceByNode: ranks are spread over the hosts as evenly as the slots allow. The ranks of a
// host have consecutive numbers.
func TestPlaceByNode(t *testing.T) {
	hosts := []Host{{"a", 2, 0}, {"b", 4, 5}, {"c", 1, 1}}
	for _, c := range []struct {
		np   int
		over bool
		want string
	}{
		{2, false, "a:1 b:1"}, {4, false, "a:2 b:1 c:1"}, {6, false, "a:2 b:3 c:1"}, {0, false, "a:2 b:4 c:1"}, {9, true, "a:3 b:5 c:1"},
	} {
		p, err := Place(c.np, hosts, c.over, ByNode)
		var got []string
		for i, r := range p.Ranks {
			if i == 0 || r.Host != p.Ranks[i-1].Host {
				got = append(got, fmt.Sprintf("%s:%d", r.Host, r.LocalSize))
			}
		}
		if s := strings.Join(got, " "); s != c.want || err != nil {
			t.Errorf("%d: %s, want %s (%v)", c.np, s, c.want, err)
		}
	}
}

// TestPlacesAreWhole: ranks and local ranks are numbered consecutively, and no host has more
// ranks than slots.
func TestPlacesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hosts []Host
		for i := range rapid.IntRange(1, 4).Draw(t, "hosts") {
			h := Host{Name: fmt.Sprint("h", i), Slots: rapid.IntRange(1, 5).Draw(t, "slots")}
			if rapid.Bool().Draw(t, "limited") {
				h.Max = h.Slots + rapid.IntRange(0, 3).Draw(t, "more")
			}
			hosts = append(hosts, h)
		}
		over := rapid.Bool().Draw(t, "oversubscribe")
		np := rapid.IntRange(0, 30).Draw(t, "np")
		by := rapid.SampledFrom([]Mapping{BySlot, ByNode}).Draw(t, "by")
		p, err := Place(np, hosts, over, by)
		if err != nil {
			return
		}
		counts := map[string]int{}
		for i, r := range p.Ranks {
			if r.Rank != i || r.LocalRank != counts[r.Host] {
				t.Fatalf("place %d has rank %+v", i, r)
			}
			counts[r.Host]++
		}
		if np > 0 && len(p.Ranks) != np {
			t.Fatalf("%d ranks for -np %d", len(p.Ranks), np)
		}
		for _, r := range p.Ranks {
			if r.LocalSize != counts[r.Host] {
				t.Fatalf("%+v on a host with %d ranks", r, counts[r.Host])
			}
		}
		for _, h := range hosts {
			if n := counts[h.Name]; h.Max > 0 && n > h.Max || !over && n > h.Slots {
				t.Fatalf("%d ranks on host %+v", n, h)
			}
		}
	})
}

// TestPlanForPeopleAndPrograms compares the text and the JSON form of a plan with the expected
// ones.
func TestPlanForPeopleAndPrograms(t *testing.T) {
	p, err := Place(3, []Host{{"localhost", 2, 0}, {"far.example", 2, 0}}, false, BySlot)
	fatal.If(t, err)
	if got, want := p.String(), "3 ranks\n  localhost: ranks 0–1\n  far.example: rank 2\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := string(p.JSON()), `{"world_size":3,"ranks":[{"rank":0,"host":"localhost","local_rank":0,"local_size":2},{"rank":1,"host":"localhost","local_rank":1,"local_size":2},{"rank":2,"host":"far.example","local_rank":0,"local_size":1}]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.Remote() != "far.example" || local(t, 3).Remote() != "" {
		t.Error(p.Remote())
	}
}
