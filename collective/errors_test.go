package collective

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func tagOf(call Call, n int) Tag {
	return Tag{Channel: 1, Call: call, Op: Max, Type: Float32, Root: 2, Step: 3, Seq: 4, Count: uint64(n)}
}

// causes returns errors that can be sent to another process.
func causes() []error {
	return []error{
		&LostError{Rank: 3, By: 1, Cause: errors.New("connection reset")},
		&LostError{Rank: 3, By: 1, Cause: ErrLeft},
		&AbortError{By: 2, Cause: errors.New("loss is NaN")},
		&MismatchError{
			Peer: Side{Rank: 0, Tag: tagOf(CallAllReduce, 10), Bytes: 40},
			Own:  Side{Rank: 65535, Tag: tagOf(CallBarrier, 0), Bytes: -1},
		},
	}
}

// TestCausesTravel: a cause has the same value after encoding and parsing. A long one is
// shortened.
func TestCausesTravel(t *testing.T) {
	for _, want := range causes() {
		got, err := ParseCause(AppendCause(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v was parsed as %v, %v", want, got, err)
		}
	}
	long := AppendCause([]byte("before"), errors.New(strings.Repeat("é", MaxCause)))
	if len(long) != len("before")+MaxCause {
		t.Fatalf("a long cause is encoded in %d bytes, want %d", len(long)-len("before"), MaxCause)
	}
	if got, err := ParseCause(long[len("before"):]); err != nil || !strings.Contains(got.Error(), "éé") {
		t.Errorf("a long cause was parsed as %v, %v", got, err)
	}
}

// FuzzParseCause: a cause that is accepted is equal after encoding and parsing.
func FuzzParseCause(f *testing.F) {
	for _, c := range causes() {
		f.Add(AppendCause(nil, c))
	}
	f.Add([]byte{causeMismatch})
	f.Fuzz(func(t *testing.T, b []byte) {
		cause, err := ParseCause(b)
		if err != nil {
			return
		}
		again, err := ParseCause(AppendCause(nil, cause))
		if err != nil || len(b) < MaxCause/4 && again.Error() != cause.Error() {
			t.Fatalf("%v was parsed as %v, %v", cause, again, err)
		}
	})
}

// FuzzParseTag: a tag that is accepted is encoded as the same bytes.
func FuzzParseTag(f *testing.F) {
	f.Add(tagOf(CallAllToAllV, 7).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		tag, err := ParseTag(b)
		if err == nil && !bytes.Equal(tag.Append(nil), b) {
			t.Fatalf("%x was parsed as %v", b, tag)
		}
		_ = tag.String()
	})
}

// TestBlamed: Blamed and Cause find the lost rank and the cause in wrapped errors.
func TestBlamed(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("collective: Barrier: rank 0: %w", err) }
	for _, k := range []struct {
		err  error
		rank int
		ok   bool
	}{
		{wrap(causes()[0]), 3, true},
		{wrap(causes()[2]), 2, true},
		{wrap(causes()[3]), -1, false},
		{wrap(&LimitError{Rank: 5}), 5, true},
		{io.EOF, -1, false},
		{nil, -1, false},
	} {
		if rank, ok := Blamed(k.err); rank != k.rank || ok != k.ok {
			t.Errorf("Blamed(%v) = %d, %v, want %d, %v", k.err, rank, ok, k.rank, k.ok)
		}
	}
	if got := Cause(4, wrap(causes()[0])); got != nil && !strings.HasPrefix(got.Error(), "rank 3 was lost") {
		t.Errorf("Cause of a loss is %v", got)
	}
	if got := Cause(4, nil); got.Error() != "rank 4 aborted: no cause was given" {
		t.Errorf("Cause of nil is %v", got)
	}
}

// TestErrorsNameBothSides: errors about a mismatch name both sides.
func TestErrorsNameBothSides(t *testing.T) {
	want := "calls differ: rank 0 has a message of 40 bytes in AllReduce(max) of 10 float32, step 3 of call 4 on channel 1, " +
		"but rank 65535 is in Barrier, step 3 of call 4 on channel 1; every rank must make the same calls in the same order"
	if got := causes()[3].Error(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for call, want := range map[Call]string{
		CallBroadcast:      "Broadcast from rank 2 of 10 float32, step 3 of call 4 on channel 1",
		callGatherBytes:    "GatherBytes to rank 2 of at most 10 bytes, step 3 of call 4 on channel 1",
		callAllGatherBytes: "AllGatherBytes of at most 10 bytes, step 3 of call 4 on channel 1",
		CallAllToAllV:      "AllToAllV of float32, step 3 of call 4 on channel 1",
		calls:              "call 17 of 10 float32, step 3 of call 4 on channel 1",
	} {
		if got := tagOf(call, 10).String(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}
