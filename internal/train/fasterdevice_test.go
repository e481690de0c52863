package train

import "testing"

// TestFaster: the slowest rank determines the choice of device, and one rank without a GPU
// decides for all.
func TestFaster(t *testing.T) {
	for _, x := range []struct {
		all  []measured
		gpu  bool
		line string
	}{
		{[]measured{{CPU: .004, GPU: .001}, {CPU: .003, GPU: .002}}, true, "GPUs compute: a step takes 2ms, on the CPU 4ms (2.0 times as long)"},
		{[]measured{{CPU: .001, GPU: .0015}, {CPU: .002, GPU: .005}}, false, "the CPU computes: a step takes 2ms, on GPUs 5ms (2.5 times as long)"},
		{[]measured{{CPU: .001, GPU: .001}}, false, "the CPU computes: a step takes 1ms, on GPUs 1ms (1.0 times as long)"},
		{[]measured{{CPU: 4, GPU: 1}, {Fault: "no driver"}}, false, "the CPU computes: rank 1: no driver"},
	} {
		if gpu, line := faster(x.all); gpu != x.gpu || line != x.line {
			t.Errorf("%+v: %v, %q, want %v, %q", x.all, gpu, line, x.gpu, x.line)
		}
	}
}
