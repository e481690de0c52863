package micros

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestAppend(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0.0", 62: "0.0", 63: "0.125", 187: "0.125", 188: "0.25", 999: "1.0", 1234567: "1234.625", 1234375: "1234.375", -1250: "-1.25", -62: "0.0",
	} {
		if got := string(Append([]byte("t="), ns)); got != "t="+want {
			t.Errorf("%d ns: %s, want %s µs", ns, got, want)
		}
	}
	if got := string(AppendLength(nil, 62, 188)); got != "0.25" { // 0.126 µs from 0.0 to 0.25
		t.Errorf("62 to 188 ns take %s µs, want 0.25", got)
	}
}

// TestSpansDoNotOverlap: a span ends exactly where the next begins for readers that compute in
// microseconds and for readers that cut times to whole nanoseconds.
func TestSpansDoNotOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	number := func(b []byte) float64 {
		x, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for at := int64(-1e6); at < 1e13; {
		next := at + random.Int64N(1+(at+2e6)/100)
		start, length, after := number(Append(nil, at)), number(AppendLength(nil, at, next)), number(Append(nil, next))
		if start+length != after || int64(start*1000)+int64(length*1000) != int64(after*1000) {
			t.Fatalf("a span from %v for %v µs is followed by one from %v", start, length, after)
		}
		at = next + 1
	}
}
