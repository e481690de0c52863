//go:build amd64 && !noasm

#include "textflag.h"

// func sumRowsAVX2(dst, rows *[]float32, d, p, n int)
//
// Strips of 64 elements, then of 8, are summed in registers over all rows and
// stored to all results. A slice header is 24 bytes, its pointer comes first.
TEXT ·sumRowsAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ d+16(FP), R8
	MOVQ p+24(FP), R9
	MOVQ n+32(FP), CX
	SHLQ $2, CX        // end, in bytes
	XORQ AX, AX        // position, in bytes
	MOVQ CX, DX
	SUBQ $256, DX      // last position of a long strip

long:
	CMPQ AX, DX
	JGT  short
	MOVQ SI, R10
	MOVQ R9, R11
	MOVQ (R10), BX
	VMOVUPS (BX)(AX*1), Y0
	VMOVUPS 32(BX)(AX*1), Y1
	VMOVUPS 64(BX)(AX*1), Y2
	VMOVUPS 96(BX)(AX*1), Y3
	VMOVUPS 128(BX)(AX*1), Y4
	VMOVUPS 160(BX)(AX*1), Y5
	VMOVUPS 192(BX)(AX*1), Y6
	VMOVUPS 224(BX)(AX*1), Y7

longrow:
	DECQ R11
	JZ   longput
	ADDQ $24, R10
	MOVQ (R10), BX
	VADDPS (BX)(AX*1), Y0, Y0
	VADDPS 32(BX)(AX*1), Y1, Y1
	VADDPS 64(BX)(AX*1), Y2, Y2
	VADDPS 96(BX)(AX*1), Y3, Y3
	VADDPS 128(BX)(AX*1), Y4, Y4
	VADDPS 160(BX)(AX*1), Y5, Y5
	VADDPS 192(BX)(AX*1), Y6, Y6
	VADDPS 224(BX)(AX*1), Y7, Y7
	JMP  longrow

longput:
	MOVQ DI, R10
	MOVQ R8, R11

longstore:
	MOVQ (R10), BX
	VMOVUPS Y0, (BX)(AX*1)
	VMOVUPS Y1, 32(BX)(AX*1)
	VMOVUPS Y2, 64(BX)(AX*1)
	VMOVUPS Y3, 96(BX)(AX*1)
	VMOVUPS Y4, 128(BX)(AX*1)
	VMOVUPS Y5, 160(BX)(AX*1)
	VMOVUPS Y6, 192(BX)(AX*1)
	VMOVUPS Y7, 224(BX)(AX*1)
	ADDQ $24, R10
	DECQ R11
	JNZ  longstore
	ADDQ $256, AX
	JMP  long

short:
	CMPQ AX, CX
	JGE  done
	MOVQ SI, R10
	MOVQ R9, R11
	MOVQ (R10), BX
	VMOVUPS (BX)(AX*1), Y0

shortrow:
	DECQ R11
	JZ   shortput
	ADDQ $24, R10
	MOVQ (R10), BX
	VADDPS (BX)(AX*1), Y0, Y0
	JMP  shortrow

shortput:
	MOVQ DI, R10
	MOVQ R8, R11

shortstore:
	MOVQ (R10), BX
	VMOVUPS Y0, (BX)(AX*1)
	ADDQ $24, R10
	DECQ R11
	JNZ  shortstore
	ADDQ $32, AX
	JMP  short

done:
	VZEROUPPER
	RET
