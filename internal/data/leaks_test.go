package data

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestLeaks: fields that reveal the label are found, with the same results for any number
// of parts.
func TestLeaks(t *testing.T) {
	var b strings.Builder
	b.WriteString("click,refund,status,id,price,city\n")
	for i := range 40_000 {
		one, refund, status := (i*7919)%1000 < 30, "", "open"
		if one {
			refund, status = fmt.Sprint(i%13), "closed"
		}
		if i%4000 == 0 {
			status = "lost" // not quite the label
		}
		fmt.Fprintf(&b, "%d,%s,%s,%d,%g,%d\n", map[bool]int{true: 1}[one], refund, status, i, float64(i%97)/7, i%11)
	}
	path := datatest.Write(t, "clicks.csv", b.String())
	s := schema.Schema{Label: schema.Label{Field: "click", Positive: []string{"1"}}, Features: []schema.Feature{
		{Field: "refund", Encode: "standardise"}, {Field: "status", Encode: "vocabulary"}, {Field: "id", Encode: "hash"},
		{Field: "price", Encode: "quantile"}, {Field: "city", Encode: "hash"}}}
	for _, parts := range []int{1, 2, 3, 5} {
		d, err := Open(schema.Source{Header: true}, s, []string{path})
		fatal.If(t, err)
		all := new(Counts)
		for part := range parts {
			c, err := d.Scan(context.Background(), parts-1-part, parts, nil, nil)
			fatal.If(t, err)
			fatal.If(t, all.Merge(c.Marshal()))
		}
		fatal.If(t, d.Use(all))
		const want = `fields that may reveal the label: "refund" (it is missing exactly where the label has one of its values), "status" (as the only feature it has an AUC of `
		if got := Leaking(d.Leaks()); !strings.HasPrefix(got, want) || len(d.Leaks()) != 2 {
			t.Errorf("%d parts: %s", parts, got)
		}
		if first := d.Leaks()[1].AUC; first != 1 && first < 0.99 {
			t.Errorf("%d parts: AUC %v", parts, first)
		}
	}
}

// TestComputedLeaks: fields that share an input with the label are leaks, however little they
// predict it.
func TestComputedLeaks(t *testing.T) {
	path := datatest.Write(t, "rides.csv", "fare,tip,km\n10,1,2\n20,6,3\n30,9,1\n")
	src := schema.Source{Header: true, Where: "km > 0", Derive: []schema.Derived{
		schema.NewDerived("generous", "tip > 0.2 * fare"), schema.NewDerived("rate", "fare / km"), schema.NewDerived("speed", "km * 2")}}
	s := schema.Schema{Label: schema.Label{Field: "generous"}, Features: []schema.Feature{
		{Field: "tip", Encode: "standardise"}, {Field: "rate", Encode: "standardise"}, {Field: "speed", Encode: "standardise"}, {Field: "km", Encode: "standardise"}}}
	d, err := Open(src, s, []string{path})
	fatal.If(t, err)
	c, err := d.Scan(context.Background(), 0, 1, nil, nil)
	fatal.If(t, err)
	const want = `fields that may reveal the label: "tip" (the label is computed from it), "rate" (it is computed from "fare", like the label); `
	if got := Leaking(d.LeaksIn(c)); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
}
