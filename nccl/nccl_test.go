package nccl

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestVersionsRead(t *testing.T) {
	for v, want := range map[Version]string{21805: "2.18.5", 22703: "2.27.3", 2708: "2.7.8"} {
		if v.String() != want {
			t.Errorf("%d is %v, want %s", int(v), v, want)
		}
	}
	if Version(21805).minor() != Version(21800).minor() || Version(21805).minor() == Version(21905).minor() {
		t.Error("minor versions are not told apart")
	}
}

// calls are of every kind, each with another hash.
func calls() []Call {
	return []Call{
		{Kind: AllReduce, Type: Float32, Op: Sum, Count: 10},
		{Kind: AllReduce, Type: Float32, Op: Sum, Count: 11},
		{Kind: AllReduce, Type: BFloat16, Op: Sum, Count: 10},
		{Kind: AllReduce, Type: Float32, Op: Max, Count: 10},
		{Kind: ReduceScatter, Type: Float32, Op: Sum, Count: 10},
		{Kind: AllGather, Type: Float32, Count: 10},
		{Kind: Broadcast, Type: Float32, Count: 10},
		{Kind: Broadcast, Type: Float32, Count: 10, Peer: 1},
		{Kind: split},
	}
}

func TestHashesDistinguishCalls(t *testing.T) {
	seen := map[uint64]Call{}
	for _, k := range calls() {
		if other, ok := seen[k.hash()]; ok {
			t.Errorf("%v and %v have one hash", k, other)
		}
		seen[k.hash()] = k
		same := k
		same.Place, same.Send, same.Recv = "elsewhere", 8, 16
		if k.Kind != Broadcast {
			same.Peer = 3
		}
		if same.hash() != k.hash() {
			t.Errorf("%v: the hash depends on what ranks may have of their own", k)
		}
	}
}

func TestCallsRead(t *testing.T) {
	for want, k := range map[string]Call{
		"AllReduce(sum) of 10 float32 (dense, bucket 2)": {Kind: AllReduce, Type: Float32, Count: 10, Place: "dense, bucket 2"},
		"Broadcast from rank 3 of 1 int64":               {Kind: Broadcast, Type: Int64, Count: 1, Peer: 3},
		"Send to rank 1 of 7 bf16":                       {Kind: Send, Type: BFloat16, Count: 7, Peer: 1},
		"Split (color 1, key 0)":                         {Kind: split, Place: "color 1, key 0"},
	} {
		if k.String() != want {
			t.Errorf("%q, want %q", k, want)
		}
	}
}

// TestRing launches more calls than it keeps, on two streams, of which one completes.
func TestRing(t *testing.T) {
	var r ring
	launch := func(stream Stream, k Call) { r.add(stream, &k) }
	for i := range 3 * ringSize {
		launch(1, Call{Kind: AllReduce, Type: Float32, Count: i})
	}
	if e, ok := r.pending(); !ok || e.Count != 2*ringSize || e.seq != 2*ringSize+1 {
		t.Errorf("the oldest call is %v, call %d", e.Call, e.seq)
	}
	if all := r.compared(); len(all) != reported || all[0].Count != 2*ringSize {
		t.Errorf("%d calls from %v", len(all), all[0].Call)
	}
	r.complete(1, r.n)
	if e, ok := r.pending(); ok || len(r.compared()) != 0 {
		t.Errorf("%v is pending in a stream that is complete", e.Call)
	}
	launch(1, Call{Kind: Send, Type: Float32, Count: 1, Peer: 1})
	launch(2, Call{Kind: AllGather, Type: Float32, Count: 2})
	launch(1, Call{Kind: AllReduce, Type: Float32, Count: 3})
	all := r.compared()
	if len(all) != 2 || all[0].seq != 3*ringSize+1 || all[1].seq != 3*ringSize+2 || all[1].Count != 3 {
		t.Errorf("%+v: a Send is numbered or compared", all)
	}
	r.complete(1, r.n)
	if all := r.compared(); len(all) != 1 || all[0].Kind != AllGather {
		t.Errorf("%+v: want the call of the other stream", all)
	}
	lines := strings.Split(strings.TrimSpace(r.String()), "\n")
	if len(lines) != ringSize || !strings.Contains(lines[ringSize-2], "call 3073 on stream 0x2: AllGather of 2 float32: launched") || !strings.HasSuffix(lines[0], ": complete") {
		t.Errorf("%d lines, the last: %q", len(lines), lines[len(lines)-3:])
	}
}

// TestStandstill: calls are reported once, a second after the last, and if there is room.
func TestStandstill(t *testing.T) {
	c, now := &Comm{channel: 1, part: 7}, time.Unix(1e9, 0)
	look := func(after time.Duration, room, want int) {
		t.Helper()
		now = now.Add(after)
		all := c.standstill(now, room)
		if len(all) != want {
			t.Errorf("%d calls, want %d", len(all), want)
		}
		for i, k := range all {
			if k.Channel != firstChannel+1 || k.Part != 7 || k.Last != (i == len(all)-1) || !strings.HasPrefix(k.Name, "NCCL AllReduce(sum) of") {
				t.Errorf("%+v", k)
			}
		}
	}
	launch := func(n int) { c.note(1, make([]Call, n)) }
	look(0, 64, 0)
	launch(3)
	look(0, 64, 0)
	look(stillTime-1, 64, 0)
	look(1, 2, 0)
	look(1, 3, 3)
	look(10*stillTime, 64, 0)
	launch(1)
	look(10*stillTime, 64, 0)
	look(stillTime, 64, 4)
	c.ring.complete(1, c.ring.n)
	launch(1)
	look(0, 64, 0)
	c.ring.complete(1, c.ring.n)
	look(stillTime, 64, 0)
	if text := c.record(); !strings.HasPrefix(text, "communicator 1 of 0 ranks") || strings.Count(text, ": complete\n") != 5 {
		t.Errorf("%s", text)
	}
}

func TestWrongCallsPanic(t *testing.T) {
	c := &Comm{size: 2}
	for _, k := range []Call{
		{Kind: kinds, Type: Float32}, {Kind: split, Type: Float32}, {Kind: AllReduce}, {Kind: AllReduce, Type: 3},
		{Kind: AllReduce, Type: Float32, Count: -1}, {Kind: Send, Type: Float32, Peer: 2}, {Kind: Recv, Type: Float32, Peer: -1},
	} {
		if said := func() (said any) {
			defer func() { said = recover() }()
			return c.Launch(1, k)
		}(); !strings.HasPrefix(fmt.Sprint(said), "nccl: Launch: ") {
			t.Errorf("%+v: %v", k, said)
		}
	}
}
