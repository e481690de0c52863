package control

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/rank"
)

// fill sets every field of *v to a value other than zero.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i) + 1)
		case reflect.Uint32, reflect.Uint64:
			f.SetUint(uint64(i) + 1)
		case reflect.Float64:
			f.SetFloat(float64(i) + .5)
		case reflect.String:
			f.SetString(string(rune('a' + i)))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x", "y"}))
		default:
			panic(f.Kind())
		}
	}
}

// TestNoFieldIsLost: the conversion to wire messages and back keeps all fields.
func TestNoFieldIsLost(t *testing.T) {
	var s rank.Status
	fill(reflect.ValueOf(&s).Elem())
	if got := statusFromWire(statusToWire(s)); got != s {
		t.Errorf("%+v", got)
	}
	var m rank.Member
	fill(reflect.ValueOf(&m).Elem())
	if got := memberFromWire(memberToWire(m)); got != m {
		t.Errorf("%+v", got)
	}
	var v rank.Verdict
	fill(reflect.ValueOf(&v).Elem())
	if got := verdictFromWire(verdictToWire(&v)); !reflect.DeepEqual(*got, v) {
		t.Errorf("%+v", got)
	}
}

// TestNoTrafficIsLost does the same for Traffic, within its limits.
func TestNoTrafficIsLost(t *testing.T) {
	var w rank.Wait
	var b rank.Begun
	var c rank.Call
	fill(reflect.ValueOf(&w).Elem())
	fill(reflect.ValueOf(&b).Elem())
	fill(reflect.ValueOf(&c).Elem())
	want := rank.Traffic{Waits: []rank.Wait{w}, Begun: []rank.Begun{b}, Calls: []rank.Call{c}}
	if got := trafficFromWire(trafficToWire(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	c.Name = strings.Repeat("x", 2*maxName)
	many := rank.Traffic{Calls: slices.Repeat([]rank.Call{c}, 2*rank.MaxCalls)}
	if got := trafficFromWire(trafficToWire(many)); len(got.Calls) != rank.MaxCalls || len(got.Calls[0].Name) > maxName {
		t.Errorf("%d calls, name of %d bytes", len(got.Calls), len(got.Calls[0].Name))
	}
}

func TestCutIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "bytes"))
		limit := rapid.IntRange(10, 40).Draw(t, "limit")
		got := cut(s, limit)
		if len(s) <= limit && got == s {
			return
		}
		if len(got) > 3*limit || got != cut(got, 3*limit) {
			t.Fatalf("%q", got)
		}
	})
}

func TestIntervals(t *testing.T) {
	zero, small, large := rank.World{Size: 1000}, rank.World{Rank: 1, Size: 8}, rank.World{Rank: 1, Size: 1000}
	for _, c := range []struct {
		timeout time.Duration
		w       rank.World
		want    time.Duration
	}{
		{60 * time.Second, zero, 200 * time.Millisecond},
		{60 * time.Second, small, 200 * time.Millisecond},
		{60 * time.Second, large, time.Second},
		{5 * time.Second, large, 500 * time.Millisecond},
		{time.Second, zero, 100 * time.Millisecond},
		{time.Millisecond, large, 10 * time.Millisecond},
	} {
		if got := interval(c.timeout, c.w); got != c.want {
			t.Errorf("timeout %v, rank %d of %d: %v, want %v", c.timeout, c.w.Rank, c.w.Size, got, c.want)
		}
	}
}
