// The three products of a layer by a library of matrix products, on one thread: a line for each,
//
//     product,rows,in,out,GFLOP/s
//
// of the fastest of REPEAT calls, after one that warms up. Arguments: the shared library, REPEAT
// and shapes as rowsxinxout. Bias and ReLU, which wdlrun counts, are left out. The library has
// cblas_sgemm, with or without a prefix of OpenBLAS's wheel, or dnnl_sgemm of oneDNN.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { row_major = 101, plain = 111, transposed = 112 };
typedef void Cblas(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef int Dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
static Cblas *cblas;
static Dnnl *dnnl;

static void multiply(int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c) {
  if (cblas)
    cblas(row_major, ta ? transposed : plain, tb ? transposed : plain, m, n, k, alpha, a, lda, b, ldb, beta, c, n);
  else if (dnnl(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, n))
    exit(1);
}

static void load(const char *file) {
  void *lib = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!lib) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  const char *names[] = {"cblas_sgemm", "scipy_cblas_sgemm"};
  for (int i = 0; i < 2 && !cblas; i++) cblas = (Cblas *)dlsym(lib, names[i]);
  dnnl = (Dnnl *)dlsym(lib, "dnnl_sgemm");
  if (!cblas && !dnnl) exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static float *matrix(size_t n) {
  float *m = aligned_alloc(64, (4 * n + 63) / 64 * 64);
  if (!m) exit(1);
  for (size_t i = 0; i < n; i++) m[i] = (float)(i % 251) / 251 - 0.5f;
  return m;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  load(argv[1]);
  int repeat = atoi(argv[2]);
  for (int s = 3; s < argc; s++) {
    int rows, in, out;
    if (sscanf(argv[s], "%dx%dx%d", &rows, &in, &out) != 3) return 2;
    float *x = matrix((size_t)rows * in), *w = matrix((size_t)in * out), *y = matrix((size_t)rows * out);
    for (int p = 0; p < 3; p++) {
      double best = 1e30;
      for (int i = 0; i <= repeat; i++) {
        double start = now();
        if (p == 0) // y = x·w
          multiply(0, 0, rows, out, in, 1, x, in, w, out, 0, y);
        else if (p == 1) // dx = dy·wᵀ
          multiply(0, 1, rows, in, out, 1, y, out, w, out, 0, x);
        else // dw += xᵀ·dy
          multiply(1, 0, in, out, rows, 1e-6f, x, in, y, out, 1, w);
        double t = now() - start;
        if (i > 0 && t < best) best = t;
      }
      printf("%s,%d,%d,%d,%.1f\n", (const char *[]){"forward", "input", "weight"}[p], rows, in, out, 2e-9 * rows * in * out / best);
    }
    free(x), free(w), free(y);
  }
  return 0;
}
