package dense

import "testing"

func BenchmarkDropout(b *testing.B) {
	a := &Arena{}
	l := newDropout(a, "d", 128, .2)
	x := make([]float32, 256*128)
	for i := range x {
		x[i] = float32(i)
	}
	for b.Loop() {
		l.step++
		y, _ := l.Forward(x, 256, true)
		_, _ = l.Backward(y, 256)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/element")
}
