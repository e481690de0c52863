// A stand-in of libcublas.so.12: products on the streams of the stand-in driver.

#include <stdlib.h>
#include <string.h>

#include "standin.h"

enum { success = 0, not_initialized = 1, invalid_value = 7, execution_failed = 13, not_supported = 15 };

struct handle { void *stream; };

const char *cublasGetStatusString(int status) {
	switch (status) {
	case not_initialized: return "the library was not initialized";
	case invalid_value: return "an unsupported value or parameter was passed to the function";
	case execution_failed: return "the function failed to launch on the GPU";
	}
	return "unknown";
}

// The version that cuBLAS reports. MAJOR is that of CUDA too.
#ifndef MAJOR
#define MAJOR 12
#endif

int cublasGetProperty(int which, int *value) {
	static const int version[] = {MAJOR, 1, 3};
	return which < 0 || which > 2 ? invalid_value : (*value = version[which], success);
}

// A driver of an older CUDA is not enough, as for the real library.
int cublasCreate_v2(void **out) {
	int version = 0;
	if (standin_enter("cublasCreate", 1) || cuDriverGetVersion(&version) || version / 1000 < MAJOR)
		return not_initialized;
	return *out = calloc(1, sizeof(struct handle)), success;
}

int cublasDestroy_v2(void *handle) {
	if (standin_enter("cublasDestroy", 1))
		return not_initialized;
	return free(handle), success;
}

int cublasSetStream_v2(void *handle, void *stream) {
	((struct handle *)handle)->stream = stream;
	return success;
}

// product is C = alpha·op(A)·op(B) + beta·C, all by columns; op(A) is m×k.
struct product { int ta, tb, m, n, k, lda, ldb, ldc, compute; float alpha, beta; address a, b, c; };

// add_column adds column l of op(A), times x, to c.
static void add_column(float *restrict c, const float *restrict a, const struct product *p, int l, float x) {
	if (!p->ta)
		for (int i = 0; i < p->m; i++)
			c[i] += a[(size_t)l * p->lda + i] * x;
	else
		for (int i = 0; i < p->m; i++)
			c[i] += a[(size_t)i * p->lda + l] * x;
}

enum { compute_32f = 68, compute_bf16 = 75, compute_tf32 = 77 };

// rounded is x as the compute type rounds operands: to the nearest, a tie to even.
static float rounded(float x, int compute) {
	unsigned bits, low = compute == compute_bf16 ? 16 : 13;
	if (compute == compute_32f || x != x)
		return x;
	memcpy(&bits, &x, sizeof bits);
	bits += (1u << (low - 1)) - 1 + (bits >> low & 1);
	bits = bits >> low << low;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static int multiplies(void *data) {
	const struct product *p = data;
	const float *a = (float *)(p->a + device_shift), *b = (float *)(p->b + device_shift);
	float *turned = NULL;
	struct product q = *p;
	if (p->ta || p->compute != compute_32f) { // a copy by columns: rows of a would be read with a stride
		turned = malloc(sizeof(float) * p->m * p->k);
		for (int i = 0; i < p->m; i++)
			for (int l = 0; l < p->k; l++)
				turned[(size_t)l * p->m + i] = rounded(p->ta ? a[(size_t)i * p->lda + l] : a[(size_t)l * p->lda + i], p->compute);
		a = turned, q.ta = 0, q.lda = p->m;
	}
	for (int j = 0; j < p->n; j++) {
		float *c = (float *)(p->c + device_shift) + (size_t)j * p->ldc;
		if (p->beta == 0) // what was there is not read, not even a NaN
			memset(c, 0, sizeof(float) * p->m);
		else
			for (int i = 0; i < p->m; i++)
				c[i] *= p->beta;
		for (int l = 0; l < p->k; l++)
			add_column(c, a, &q, l, p->alpha * rounded(p->tb ? b[(size_t)l * p->ldb + j] : b[(size_t)j * p->ldb + l], p->compute));
	}
	free(turned);
	return success;
}

static int fits(address at, int rows, int cols, int ld) {
	return rows <= ld && standin_range(at, sizeof(float) * ((size_t)(cols - 1) * ld + rows));
}

// All types are float32 (0), and the algorithm is the default one (-1).
int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, address a, int a_type, int lda,
	address b, int b_type, int ldb, const float *beta, address c, int c_type, int ldc, int compute, int algorithm) {
	if (standin_enter("cublasGemmEx", 1))
		return execution_failed;
	struct product p = {ta, tb, m, n, k, lda, ldb, ldc, compute, *alpha, *beta, a, b, c};
	if (m < 1 || n < 1 || k < 1 || ta < 0 || ta > 1 || tb < 0 || tb > 1)
		return invalid_value;
	if (a_type || b_type || c_type || algorithm != -1 || (compute != compute_32f && compute != compute_bf16 && compute != compute_tf32))
		return not_supported;
	if (!fits(a, ta ? k : m, ta ? m : k, lda) || !fits(b, tb ? n : k, tb ? k : n, ldb) || !fits(c, m, n, ldc))
		return invalid_value;
	standin_note("product", c);
	return standin_enqueue(((struct handle *)handle)->stream, multiplies, &p, sizeof p) ? execution_failed : success;
}
