package calls

import (
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

func TestLedger(t *testing.T) {
	reduce := func(seq uint64, step uint32, n uint64) collective.Tag {
		return collective.Tag{Call: collective.CallAllReduce, Seq: seq, Step: step, Count: n}
	}
	var l Ledger
	if err := l.Note(0, reduce(1, 0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := l.Note(1, reduce(1, 3, 10)); err != nil {
		t.Fatalf("another step of the same call: %v", err)
	}
	if err := l.Compare(1, reduce(2, 0, 99)); err != nil {
		t.Fatalf("a call that nobody noted: %v", err)
	}
	err := l.Note(2, reduce(1, 0, 11))
	if err == nil || err.Peer.Rank != 2 || err.Own.Rank != 0 || err.Peer.Tag.Count != 11 || err.Own.Tag.Count != 10 {
		t.Fatalf("a call of another length: %v", err)
	}
	if err := l.Note(0, reduce(1+kept, 0, 12)); err != nil {
		t.Fatalf("a call much later: %v", err)
	}
	if err := l.Note(1, reduce(1, 0, 13)); err != nil {
		t.Fatalf("a call long forgotten: %v", err)
	}
	if err := l.Compare(1, reduce(1+kept, 0, 13)); err == nil {
		t.Fatal("a call long forgotten replaced a later one")
	}
}
