package cudatest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// opcodes are the instructions that compute: the types of their operands a, b and c, and the result
// as an expression of C. A type is p (predicate), r (32 bits), d (64 bits), f (float) or e (double).
// The compiler does not fuse operations, so each rounds once, as .rn demands.
var opcodes = map[string][2]string{
	"add.s32": {"rr", "a + b"}, "sub.s32": {"rr", "a - b"}, "mul.lo.s32": {"rr", "a * b"}, "mad.lo.s32": {"rrr", "a * b + c"},
	"div.u32": {"rr", "b ? a / b : ~0u"}, "rem.u32": {"rr", "b ? a % b : a"}, "min.u32": {"rr", "a < b ? a : b"},
	"and.b32": {"rr", "a & b"}, "or.b32": {"rr", "a | b"},
	"shl.b32": {"rr", "b < 32 ? a << b : 0"}, "shr.u32": {"rr", "b < 32 ? a >> b : 0"}, "shr.s32": {"rr", "(u32)((int)a >> (b < 32 ? b : 31))"},
	"add.s64": {"dd", "a + b"}, "mul.lo.s64": {"dd", "a * b"}, "mul.wide.u32": {"rr", "(u64)a * b"}, "xor.b64": {"dd", "a ^ b"},
	"shl.b64": {"dr", "b < 64 ? a << b : 0"}, "shr.u64": {"dr", "b < 64 ? a >> b : 0"},
	"add.rn.f32": {"ff", "a + b"}, "sub.rn.f32": {"ff", "a - b"}, "mul.rn.f32": {"ff", "a * b"}, "div.rn.f32": {"ff", "a / b"},
	"neg.f32": {"f", "-a"}, "sqrt.rn.f32": {"f", "__builtin_sqrtf(a)"},
	"add.rn.f64": {"ee", "a + b"}, "sub.rn.f64": {"ee", "a - b"}, "mul.rn.f64": {"ee", "a * b"}, "div.rn.f64": {"ee", "a / b"},
	"neg.f64": {"e", "-a"}, "rcp.rn.f64": {"e", "1 / a"},
	"setp.eq.b32": {"rr", "a == b"}, "setp.eq.s32": {"rr", "a == b"}, "setp.ne.s32": {"rr", "a != b"}, "setp.eq.s64": {"dd", "a == b"},
	"setp.lt.u32": {"rr", "a < b"}, "setp.le.u32": {"rr", "a <= b"}, "setp.gt.u32": {"rr", "a > b"}, "setp.ge.u32": {"rr", "a >= b"},
	"setp.eq.f32": {"ff", "a == b"}, "setp.lt.f32": {"ff", "a < b"}, "setp.le.f32": {"ff", "a <= b"}, "setp.geu.f32": {"ff", "!(a < b)"}, "setp.nan.f32": {"ff", "a != a || b != b"},
	"setp.lt.f64": {"ee", "a < b"}, "setp.gt.f64": {"ee", "a > b"}, "setp.nan.f64": {"ee", "a != a || b != b"},
	"selp.b32": {"rrp", "c ? a : b"}, "selp.b64": {"ddp", "c ? a : b"}, "selp.f32": {"ffp", "c ? a : b"}, "selp.f64": {"eep", "c ? a : b"},
	"not.pred": {"p", "!a"}, "xor.pred": {"pp", "a != b"}, "mov.pred": {"p", "a"},
	"mov.u32": {"r", "a"}, "mov.u64": {"d", "a"}, "mov.f32": {"f", "a"}, "mov.f64": {"e", "a"},
	"cvta.to.global.u64": {"d", "a"}, "cvt.u64.u32": {"r", "a"}, "cvt.u32.u64": {"d", "(u32)a"},
	"cvt.f64.f32": {"f", "a"}, "cvt.rn.f32.f64": {"e", "(float)a"}, "cvt.rn.f32.s32": {"r", "(int)a"}, "cvt.rzi.s32.f32": {"f", "(u32)to_int(a)"},
	"cvt.rn.f64.s32": {"r", "(int)a"}, "cvt.rzi.s32.f64": {"e", "(u32)to_int(a)"},
}

// ctypes are the types of operands, and of what .reg declares and ld and st move.
var ctypes = map[string]string{
	"p": "_Bool", "r": "u32", "d": "u64", "f": "float", "e": "double",
	".pred": "_Bool", ".b32": "u32", ".b64": "u64", ".f32": "float", ".f64": "double", "u32": "u32", "u64": "u64", "f32": "float", "f64": "double",
}

const preamble = `#include "standin.h"
#pragma GCC optimize ("O1")
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
typedef unsigned u32;
typedef unsigned long long u64;
static inline float float_of(u32 x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline double double_of(u64 x) { double y; __builtin_memcpy(&y, &x, 8); return y; }
static inline int to_int(double x) { return x != x ? 0 : x <= -2147483648. ? -2147483647 - 1 : x >= 2147483647. ? 2147483647 : (int)x; }
#define BITS(to, from) { _Static_assert(sizeof to == sizeof from, "mov changes no size"); __builtin_memcpy(&to, &from, sizeof to); }
#define LOAD(T, to, at) { int bad = standin_bad(at, sizeof(T)); if (bad) return bad; to = *(const T *)((at) + device_shift); }
#define STORE(T, at, from) { int bad = standin_bad(at, sizeof(T)); if (bad) return bad; *(T *)((at) + device_shift) = from; }
extern int standin_broken;
extern unsigned char standin_ran[];
#ifdef WATCHED
#define RAN(k) (standin_ran[k] = 1)
#define IS(k) __builtin_expect(standin_broken == (k), 0)
#define RESULT(k, x) if (IS(k)) x = _Generic((x), _Bool: !(x), float: (x) * 3 + 1, double: (x) * 3 + 1, default: (x) + 1025)
#define LABEL if (!fuel--) return 702
#else
#define RAN(k) (void)0
#define IS(k) 0
#define RESULT(k, x) (void)0
#define LABEL (void)0
#endif
`

// patterns of the lines of a kernel.
var (
	entryLine   = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	paramLine   = regexp.MustCompile(`^\.param \.align 8 \.b8 (\w+)_param_0\[\d+\]$`)
	regLine     = regexp.MustCompile(`^\.reg (\.\w+)\s+%(\w+)<(\d+)>;$`)
	labelLine   = regexp.MustCompile(`^(\w+):$`)
	instruction = regexp.MustCompile(`^(?:@(!?)%(p\d+)\s+)?([a-z0-9.]+)\s*([^;]*);$`)
	operand     = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|[^,\s]+`)
	register    = regexp.MustCompile(`^%(?:p|r|rd|f|fd)\d+$`)
	place       = regexp.MustCompile(`^\[(%rd\d+|\w+_param_0)(?:\+(\d+))?\]$`)
	number      = regexp.MustCompile(`^-?\d+$`)
	floating    = regexp.MustCompile(`^0([fd])([0-9A-F]{8}|[0-9A-F]{16})$`)
)

// specials are the registers of a thread's place.
var specials = map[string]string{"%tid.x": "tid", "%ntid.x": "ntid", "%ctaid.x": "ctaid", "%nctaid.x": "nctaid"}

// translator writes C for PTX.
type translator struct {
	out  strings.Builder
	text []string // the instructions
	name string   // of the kernel
}

// isPTX tells PTX from the C source of kernels.
func isPTX(kernels string) bool { return strings.Contains(kernels, "\n.version ") }

// fingerprint identifies PTX. The stand-in of the driver calculates it too.
func fingerprint(ptx string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(ptx))
	return h.Sum64()
}

// translate returns C that computes what PTX does. Each kernel becomes the function NAME_thread, of
// one thread. An instruction that is not known is an error.
func translate(ptx string) (string, error) {
	t := &translator{}
	t.out.WriteString(preamble)
	for i, line := range strings.Split(ptx, "\n") {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := t.line(line); err != nil {
			return "", fmt.Errorf("cudatest: line %d of the PTX: %w: %s", i+1, err, line)
		}
	}
	fmt.Fprintf(&t.out, "const u64 standin_fingerprint = %dull;\nconst int standin_instructions = %d;\nint standin_broken = -1;\nunsigned char standin_ran[%d];\nconst char *const standin_texts[] = {\n",
		fingerprint(ptx), len(t.text), len(t.text)+1)
	for _, text := range t.text {
		fmt.Fprintf(&t.out, "%q,\n", text)
	}
	t.out.WriteString("0};\n")
	return t.out.String(), nil
}

// line translates one line.
func (t *translator) line(line string) error {
	if m := entryLine.FindStringSubmatch(line); m != nil {
		t.name = m[1]
		fmt.Fprintf(&t.out, "int %s_thread(const char *args, u32 ctaid, u32 tid, u32 nctaid, u32 ntid)\n", t.name)
		return nil
	}
	if m := regLine.FindStringSubmatch(line); m != nil {
		count, err := strconv.Atoi(m[3])
		if err != nil || ctypes[m[1]] == "" || count > 1<<16 {
			return errors.New("these registers are not known")
		}
		fmt.Fprintf(&t.out, "%s %s0", ctypes[m[1]], m[2])
		for i := 1; i < count; i++ {
			fmt.Fprintf(&t.out, ", %s%d", m[2], i)
		}
		t.out.WriteString(";\n")
		return nil
	}
	if m := labelLine.FindStringSubmatch(line); m != nil {
		fmt.Fprintf(&t.out, "%s: LABEL;\n", m[1])
		return nil
	}
	switch {
	case line == "{":
		t.out.WriteString("{ u32 fuel = 1 << 20;\n")
	case line == "}":
		t.out.WriteString("return 0; }\n")
	case line == ")", line == `.pragma "nounroll";`, paramLine.MatchString(line),
		strings.HasPrefix(line, ".version "), line == ".target sm_75", line == ".address_size 64":
	default:
		m := instruction.FindStringSubmatch(line)
		if m == nil {
			return errors.New("this is no instruction")
		}
		return t.instruction(line, m[1] == "!", m[2], m[3], operand.FindAllString(m[4], -1))
	}
	return nil
}

// instruction translates one instruction, which may depend on a predicate.
func (t *translator) instruction(line string, not bool, predicate, op string, args []string) error {
	k := len(t.text)
	t.text = append(t.text, t.name+": "+line)
	condition := "1"
	if predicate != "" {
		condition = map[bool]string{true: "!"}[not] + predicate
	}
	if op == "bra" || op == "bra.uni" {
		fmt.Fprintf(&t.out, "RAN(%d); if ((%s) != IS(%d)) goto %s;\n", k, condition, k, args[0])
		return nil
	}
	statement, err := t.statement(k, op, args)
	if err == nil {
		fmt.Fprintf(&t.out, "if (%s) { RAN(%d); %s }\n", condition, k, statement)
	}
	return err
}

func (t *translator) statement(k int, op string, args []string) (string, error) {
	result := func(registers ...string) (s string) {
		for _, r := range registers {
			s += fmt.Sprintf(" RESULT(%d, %s);", k, r[1:])
		}
		return s
	}
	rule, known := opcodes[op]
	parts := strings.Split(op, ".")
	kind := ctypes[parts[len(parts)-1]]
	switch {
	case op == "ret":
		return "return 0;", nil
	case known && len(args) == 1+len(rule[0]) && register.MatchString(args[0]):
		s := ""
		for i, of := range rule[0] {
			v, err := t.value(args[1+i], string(of))
			if err != nil {
				return "", err
			}
			s += fmt.Sprintf("const %s %c = %s; ", ctypes[string(of)], 'a'+i, v)
		}
		return s + args[0][1:] + " = " + rule[1] + ";" + result(args[0]), nil
	case (op == "mov.b32" || op == "mov.b64") && len(args) == 2 && register.MatchString(args[0]):
		if args[1] == t.name+"_param_0" {
			return args[0][1:] + " = (u64)args;" + result(args[0]), nil
		} else if register.MatchString(args[1]) {
			return fmt.Sprintf("BITS(%s, %s)", args[0][1:], args[1][1:]) + result(args[0]), nil
		}
	case kind != "" && parts[0] == "ld" && len(args) == 2:
		return t.load(parts, kind, args, result)
	case kind != "" && len(parts) == 3 && parts[0] == "st" && parts[1] == "global" && len(args) == 2 && register.MatchString(args[1]):
		at, ok := t.at(args[0])
		if ok {
			return fmt.Sprintf("if (!IS(%d)) STORE(%s, %s, %s)", k, kind, at, args[1][1:]), nil
		}
	}
	return "", fmt.Errorf("%s is not known with these operands", op)
}

// load translates ld.global.TYPE, ld.param.TYPE and ld.param.v2.TYPE.
func (t *translator) load(parts []string, kind string, args []string, result func(...string) string) (string, error) {
	at, ok := t.at(args[1])
	to := strings.Fields(strings.NewReplacer("{", "", "}", "", ",", "").Replace(args[0]))
	for _, r := range to {
		ok = ok && register.MatchString(r)
	}
	form := strings.Join(parts[1:len(parts)-1], ".")
	switch {
	case !ok:
	case form == "global" && len(to) == 1:
		return fmt.Sprintf("LOAD(%s, %s, %s)", kind, to[0][1:], at) + result(to...), nil
	case form == "param" && len(to) == 1:
		return fmt.Sprintf("%s = *(const %s *)(%s);", to[0][1:], kind, at) + result(to...), nil
	case form == "param.v2" && len(to) == 2:
		return fmt.Sprintf("%s = ((const %s *)(%s))[0]; %s = ((const %s *)(%s))[1];", to[0][1:], kind, at, to[1][1:], kind, at) + result(to...), nil
	}
	return "", errors.New("a load of this form is not known")
}

// at returns an address.
func (t *translator) at(operand string) (string, bool) {
	m := place.FindStringSubmatch(operand)
	if m == nil || m[1][0] != '%' && m[1] != t.name+"_param_0" {
		return "", false
	}
	base := strings.TrimPrefix(m[1], "%")
	if base == t.name+"_param_0" {
		base = "(u64)args"
	}
	offset := m[2]
	if offset == "" {
		offset = "0"
	}
	return base + " + " + offset, true
}

// value returns an operand of a type.
func (t *translator) value(operand, of string) (string, error) {
	if register.MatchString(operand) {
		return operand[1:], nil
	}
	if s := specials[operand]; s != "" {
		return s, nil
	}
	if m := floating.FindStringSubmatch(operand); m != nil && m[1] == map[string]string{"f": "f", "e": "d"}[of] {
		return map[string]string{"f": "float_of", "d": "double_of"}[m[1]] + "(0x" + m[2] + "ull)", nil
	}
	if number.MatchString(operand) && of != "f" && of != "e" {
		return "(" + ctypes[of] + ")" + operand + "ll", nil
	}
	return "", fmt.Errorf("%s is no operand of this type", operand)
}
