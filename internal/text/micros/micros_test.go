package micros

import "testing"

func TestAppend(t *testing.T) {
	for ns, want := range map[int64]string{0: "0.0", 49: "0.0", 50: "0.1", 999: "1.0", 1234567: "1234.6", -1250: "-1.3"} {
		if got := string(Append([]byte("t="), ns)); got != "t="+want {
			t.Errorf("%d ns: %s, want %s µs", ns, got, want)
		}
	}
}
