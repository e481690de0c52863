package main

import "github.com/wdlrun/wdlrun/internal/kernel/gen/asm"

// updateNEON is the code of one rule for the current values. Constants are in registers 16
// to 19, in the order of their struct. Constants that are added have separate registers.
type updateNEON struct {
	neon
	size  string
	bytes int

	w, g  asm.R
	state [2]asm.R
}

// ruleNEON is a rule with the constants it needs in every lane.
type ruleNEON struct {
	name  string
	body  func(*updateNEON)
	lanes []int
}

// The registers of constants that are added or compared, in the order of ruleNEON.lanes.  The last has the bit of the sign.
const firstNEON, secondNEON, thirdNEON, signNEON = asm.V(20), asm.V(21), asm.V(22), asm.V(23)

func rulesNEON() []ruleNEON {
	return []ruleNEON{
		{"SGD", (*updateNEON).sgd, nil},
		{"Adagrad", (*updateNEON).adagrad, []int{cEpsilon}},
		{"Adam", (*updateNEON).adam, []int{cEpsilon}},
		{"FTRL", (*updateNEON).ftrl, []int{cL1, cBeta, cL2}},
	}
}

// rowsNEON writes the update rules, each over many rows of a table and over one vector.
func rowsNEON(a *asm.Arm) {
	for _, r := range rulesNEON() {
		u := &updateNEON{neon: neon{a}}
		u.Function("vector"+r.name+"NEON", "func(w, g0, state *float32, n int, k *float32)", "updates one vector of n ≥ 1 values.")
		u.w, u.g, u.state[0] = u.Param("w"), u.Param("g0"), u.Param("state")
		n := u.Param("n")
		u.constants(r)
		u.state[1] = u.General()
		u.Op("ADD %s<<2, %s, %s", n, u.state[0], u.state[1])
		u.run(r, n)
		u.end()
		(&updateNEON{neon: neon{a}}).rows(r)
	}
}

// rows begins with the record's address for each row.
func (u *updateNEON) rows(r ruleNEON) {
	u.Function("rows"+r.name+"NEON", "func(rows *byte, n, silent int, grads *float32, stride, dim, value, state int, k *float32, mark uint32)",
		"updates n ≥ 1 rows of dim ≥ 1 values. With each but the last silent ones it asks for a later row and its mark.")
	next, n, silent, grads, stride := u.Param("rows"), u.Param("n"), u.Param("silent"), u.Param("grads"), u.Floats("stride")
	dim, value, state, mark := u.Param("dim"), u.Floats("value"), u.Floats("state"), u.Param32("mark")
	u.constants(r)
	left, at := u.General(), u.General()
	u.w, u.g, u.state[0], u.state[1] = u.General(), u.General(), u.General(), u.General()
	u.Mark("row")
	u.Op("CMP %s, %s", silent, n)
	u.Op("BLE near")
	u.Op("MOVD %d(%s), %s", recordBytes*rowsAhead, next, at)
	u.Op("ADD %s, %s, %s", value, at, u.w)
	u.Op("PRFM (%s), PLDL1KEEP", u.w)
	u.Op("ADD %s, %s, %s", state, at, u.w)
	u.Op("PRFM (%s), PLDL1KEEP", u.w)
	u.Op("MOVD %d(%s), %s", recordBytes*rowsAhead+8, next, at)
	u.Op("PRFM (%s), PLDL1KEEP", at)
	u.Mark("near")
	u.Op("MOVD 8(%s), %s", next, at)
	u.Op("MOVW %s, (%s)", mark, at)
	u.Op("MOVD (%s), %s", next, at)
	u.Op("ADD %s, %s, %s", value, at, u.w)
	u.Op("ADD %s, %s, %s", state, at, u.state[0])
	u.Op("ADD %s<<2, %s, %s", dim, u.state[0], u.state[1])
	u.Op("MOVD %s, %s", grads, u.g)
	u.Op("MOVD %s, %s", dim, left)
	u.run(r, left)
	u.Op("ADD %s, %s", stride, grads)
	u.Op("ADD $%d, %s", recordBytes, next)
	u.Op("SUBS $1, %s", n)
	u.Op("BNE row")
	u.end()
}

// constants loads the sixteen constants.
func (u *updateNEON) constants(r ruleNEON) {
	k := u.Param("k")
	u.Op("FLDPQ (%s), (F16, F17)", k)
	u.Op("FLDPQ 32(%s), (F18, F19)", k)
	for i, offset := range r.lanes {
		u.Dup(firstNEON+asm.V(i), asm.V(16+offset/16), offset/4%4)
	}
	if r.name == "FTRL" {
		u.Constant(signNEON, 1<<31)
	}
}

func (u *updateNEON) run(r ruleNEON, n asm.R) {
	u.columns(n, func(size string, bytes int) {
		u.size, u.bytes = size, bytes
		r.body(u)
	})
}

// times multiplies v by a constant.
func (u *updateNEON) times(v asm.V, offset int) {
	u.Lane("FMUL", v, v, asm.V(16+offset/16), offset/4%4)
}

// store writes values and advances p.
func (u *updateNEON) store(v asm.V, p asm.R) { u.put(u.size, u.bytes, v, p) }

// gradient sets 0 to the parameters and 1 to clip·(scale·g + decay·w).
func (u *updateNEON) gradient() {
	u.get(u.size, u.w, 0)
	u.next(u.size, u.bytes, u.g, 1)
	u.times(1, cScale)
	u.Copy(2, 0)
	u.times(2, cDecay)
	u.Three("FADD", 1, 1, 2)
	u.times(1, cClip)
}

func (u *updateNEON) sgd() {
	u.gradient()
	u.times(1, cRate)
	u.Three("FSUB", 0, 0, 1)
	u.store(0, u.w)
}

func (u *updateNEON) adagrad() {
	u.gradient()
	u.get(u.size, u.state[0], 3)
	u.Three("FMUL", 4, 1, 1)
	u.Three("FADD", 3, 3, 4)
	u.store(3, u.state[0])
	u.Two("FSQRT", 3, 3)
	u.Three("FADD", 3, 3, firstNEON)
	u.times(1, cRate)
	u.Three("FDIV", 1, 1, 3)
	u.Three("FSUB", 0, 0, 1)
	u.store(0, u.w)
}

func (u *updateNEON) adam() {
	const m, v, part = asm.V(3), asm.V(4), asm.V(5)
	u.gradient()
	u.get(u.size, u.state[0], m)
	u.get(u.size, u.state[1], v)
	u.times(m, cBeta1)
	u.Copy(part, 1)
	u.times(part, cRest1)
	u.Three("FADD", m, m, part)
	u.store(m, u.state[0])
	u.times(v, cBeta2)
	u.Copy(part, 1)
	u.times(part, cRest2)
	u.Three("FMUL", part, part, 1)
	u.Three("FADD", v, v, part)
	u.store(v, u.state[1])
	u.times(v, cUnbias2)
	u.Two("FSQRT", v, v)
	u.Three("FADD", v, v, firstNEON)
	u.times(m, cRate)
	u.times(m, cUnbias1)
	u.Three("FDIV", m, m, v)
	u.times(0, cKeep)
	u.Three("FSUB", 0, 0, m)
	u.store(0, u.w)
}

func (u *updateNEON) ftrl() {
	const z, n, root, next, l1, beta, l2, sign = asm.V(3), asm.V(4), asm.V(5), asm.V(6), firstNEON, secondNEON, thirdNEON, signNEON
	u.gradient()
	u.get(u.size, u.state[0], z)
	u.get(u.size, u.state[1], n)
	u.Two("FSQRT", root, n)
	u.Three("FMUL", next, 1, 1)
	u.Three("FADD", next, n, next)
	u.store(next, u.state[1])
	u.Two("FSQRT", next, next)
	u.Three("FSUB", root, next, root)
	u.times(root, cInverse)
	u.Three("FMUL", root, root, 0)
	u.Three("FSUB", 1, 1, root)
	u.Three("FADD", z, z, 1)
	u.store(z, u.state[0])

	u.Three("FADD", next, next, beta)
	u.times(next, cInverse)
	u.Three("FADD", next, next, l2)
	u.Two("FABS", 7, z)
	u.Three("FCMGE", 7, l1, 7) // where it is 0
	u.Copy(8, sign)
	u.Three("BSL", 8, z, l1) // l1 with the sign of z
	u.Three("FSUB", z, 8, z)
	u.Three("FDIV", z, z, next)
	u.Three("BIC", z, z, 7)
	u.store(z, u.w)
}
