package member

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// launcherScript starts a stopped rank, a running one, and a stopped process that is no rank of it. Then
// it starts the test again as another rank.
const launcherScript = `sleep 600 & stopped=$!
sleep 600 & running=$!
sh -c 'sleep 600 & echo $! > "$1"; wait' sh "$2" & other=$!
while ! [ -s "$2" ]; do sleep .1; done
stranger=$(cat "$2")
kill -STOP $stopped $stranger
WDLRUN_TEST_SIBLINGS="$stopped $running $stranger" "$1" -test.run TestAStoppedRankIsKilled
code=$?
kill -0 $running && kill -0 $stranger || code=3
kill -9 $running $stranger $other
kill -0 $stopped 2>/dev/null && kill -9 $stopped
wait $stopped
[ $? = 137 ] || code=4
exit $code`

// TestAStoppedRankIsKilled: of the processes on a host, only the one is killed that the verdict names, that
// is stopped and that the launcher of this rank has started.
func TestAStoppedRankIsKilled(t *testing.T) {
	given := os.Getenv("WDLRUN_TEST_SIBLINGS")
	if given == "" {
		shell := exec.Command("/bin/sh", "-c", launcherScript, "sh", os.Args[0], t.TempDir()+"/pid")
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	members := make([]rank.Member, 4) // this rank is the last
	members[3].Pid = os.Getpid()
	_, err := fmt.Sscan(given, &members[0].Pid, &members[1].Pid, &members[2].Pid)
	fatal.If(t, err)
	here := place{hostOf: []int{0, 0, 0, 0}}
	if s := newSiblings(members, place{hostOf: []int{1, 1, 1, 0}}, 3); len(s) != 0 {
		t.Errorf("processes of other hosts: %v", s)
	}
	s := newSiblings(members, here, 3)
	defer s.release()
	if s[0] == nil || s[1] == nil || s[2] != nil {
		t.Fatalf("siblings: %v", s)
	}
	alive := func(pid int) bool { state, _ := processState(pid); return state != 0 && state != 'Z' }
	eventually := time.Now().Add(patient.Longest)
	for state, _ := processState(members[0].Pid); state != 'T' && time.Now().Before(eventually); state, _ = processState(members[0].Pid) {
		time.Sleep(10 * time.Millisecond)
	}
	for r := range 3 {
		s.end(&rank.Verdict{Kind: rank.Exited, Rank: r})
	}
	s.end(&rank.Verdict{Kind: rank.Silent, Rank: 1})
	s.end(&rank.Verdict{Kind: rank.Silent, Rank: 2})
	s.end(&rank.Verdict{Kind: rank.Gone, Rank: -1})
	for r, m := range members {
		if !alive(m.Pid) {
			t.Errorf("rank %d was killed", r)
		}
	}
	s.end(fmt.Errorf("the job ends: %w", &rank.Verdict{Kind: rank.Silent, Rank: 0}))
	for alive(members[0].Pid) && time.Now().Before(eventually) {
		time.Sleep(10 * time.Millisecond)
	}
	if alive(members[0].Pid) {
		t.Error("the stopped rank is alive")
	}
}
