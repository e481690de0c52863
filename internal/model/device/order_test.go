//go:build gpu

package device

import (
	"os"
	"os/exec"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestLazyStreams trains on a device whose streams do nothing before something waits for them: a result
// that is read without a wait is that of an earlier step.
func TestLazyStreams(t *testing.T) {
	own, err := os.Executable()
	fatal.If(t, err)
	for _, test := range []string{
		"^TestParityWithTheCPU$/^(wide_deep|batch_norm,_dropout,_2_labels|tanh,_dropout,_L2,_clipped|dcn_v2,_stacked),_2_ranks$",
		"^(TestSumsOverNCCL|TestPoolingHasTheBitsOfTheCPU|TestABatchThatDoesNotFit)$",
	} {
		cmd := exec.Command(own, "-test.run", test, "-test.timeout", "100s", "-test.short")
		cmd.Env = append(os.Environ(), "STANDIN_LAZY=1", reused+"="+standin.Folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", test, err, out)
		}
	}
}

// TestMutationsAreCaught removes waits and alignment.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again for each mutation")
	}
	for name, x := range map[string]struct{ file, from, to string }{
		"copies do not wait for the kernels":           {"batch.go", "	d.work.do(d.copies.After(e))\n", ""},
		"losses are read before they are copied":       {"batch.go", "	w.do(d.copied.Wait())\n", ""},
		"gradients are read before they are copied":    {"device.go", "	if err := d.copies.Wait(); err != nil {\n		return err\n	}\n	d.each(d.grads", "	d.each(d.grads"},
		"norms are read before they are copied":        {"device.go", "	d.work.do(d.compute.CopyOut(d.norms.at, d.norms.on))\n	d.work.do(d.compute.Wait())\n", "	d.work.do(d.compute.CopyOut(d.norms.at, d.norms.on))\n"},
		"parameters are read before they are copied":   {"device.go", "d.compute.CopyOut(d.states.at, d.states.on), d.compute.Wait())", "d.compute.CopyOut(d.states.at, d.states.on))"},
		"buffers of sums in double are not aligned":    {"../../gpu/cuda/memory.go", "const aligned = 64", "const aligned = 1"},
		"sums of NCCL do not wait for their gradients": {"buckets.go", "		if err := r.stream.After(r.computed); err != nil {\n			return err\n		}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cudatest.Mutant(t, x.file, x.from, x.to, "TestLazyStreams")
		})
	}
}
