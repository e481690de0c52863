package cudatest

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// kernelOf is PTX with one instruction.
func kernelOf(instruction string) string {
	return "\n.version 6.3\n.target sm_75\n.address_size 64\n.visible .entry k(\n\t.param .align 8 .b8 k_param_0[8]\n)\n{\n" +
		"\t.reg .pred %p<3>;\n\t.reg .b32 %r<3>;\n\t.reg .f32 %f<3>;\n\t.reg .b64 %rd<3>;\n\t.reg .f64 %fd<3>;\n\n\t" + instruction + "\n\tret;\n}\n"
}

func TestTranslate(t *testing.T) {
	for _, x := range []struct{ instruction, want string }{
		{"add.rn.f32 \t%f1, %f2, 0f3F800000;", "const float a = f2; const float b = float_of(0x3F800000ull); f1 = a + b;"},
		{"@!%p1 mov.u32 \t%r1, %ctaid.x;", "if (!p1) { RAN(0); const u32 a = ctaid; r1 = a;"},
		{"ld.param.v2.u32 \t{%r1, %r2}, [k_param_0+16];", "r1 = ((const u32 *)((u64)args + 16))[0]; r2 = ((const u32 *)((u64)args + 16))[1];"},
		{"st.global.f64 \t[%rd1+8], %fd1;", "STORE(double, rd1 + 8, fd1)"},
	} {
		if c, err := translate(kernelOf(x.instruction)); err != nil || !strings.Contains(c, x.want) {
			t.Errorf("%s: %v\n%s", x.instruction, err, c)
		}
	}
	for _, bad := range []string{
		"add.f32 \t%f1, %f2, %f2;", "sqrt.approx.f32 \t%f1, %f2;", "fma.rn.f32 \t%f1, %f2, %f2, %f2;", "add.rn.f32 \t%f1, %f2;", "add.rn.f32 \t%f1, %f2, 1;",
		"add.rn.f32 \t%f1, %f2, 0d3FF0000000000000;", "mov.u32 \t%r1, %laneid;", "mov.b64 \t%rd1, l_param_0;", "ld.global.f32 \t%f1, [%r1];", "ld.global.u8 \t%r1, [%rd1];",
		"ld.global.v2.f32 \t{%f1, %f2}, [%rd1];", "ld.shared.f32 \t%f1, [%rd1];", "st.global.f32 \t[%rd1], 0f00000000;", ".reg .b16 %h<3>;", ".reg .b32 %r<99999999>;", "ret", "bar.sync 0;",
	} {
		if c, err := translate(kernelOf(bad)); err == nil || !strings.HasSuffix(err.Error(), ": "+bad) {
			t.Errorf("%s: %v\n%s", bad, err, c)
		}
	}
	// An opcode that no kernel uses is not tested.
	ptx, err := regular.ReadFile("../kernel/src/kernels.ptx", 1<<20)
	fatal.If(t, err)
	for op := range opcodes {
		if !strings.Contains(string(ptx), "\t"+op+" ") {
			t.Errorf("no kernel has %s", op)
		}
	}
}
