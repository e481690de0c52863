// The three products of a layer by OpenBLAS, on one thread: a line for each,
//
//     product,rows,in,out,GFLOP/s
//
// of the fastest of REPEAT calls, after one that warms up. Arguments: REPEAT and
// shapes as rowsxinxout. Bias and ReLU, which wdlrun counts, are left out.
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
  if (argc < 3) return 2;
  openblas_set_num_threads(1);
  int repeat = atoi(argv[1]);
  for (int s = 2; s < argc; s++) {
    int rows, in, out;
    if (sscanf(argv[s], "%dx%dx%d", &rows, &in, &out) != 3) return 2;
    float *x = matrix((size_t)rows * in), *w = matrix((size_t)in * out), *y = matrix((size_t)rows * out);
    for (int p = 0; p < 3; p++) {
      double best = 1e30;
      for (int i = 0; i <= repeat; i++) {
        double start = now();
        if (p == 0) // y = x·w
          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in, 1, x, in, w, out, 0, y, out);
        else if (p == 1) // dx = dy·wᵀ
          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, in, out, 1, y, out, w, out, 0, x, in);
        else // dw += xᵀ·dy
          cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, rows, 1e-6f, x, in, y, out, 1, w, out);
        double t = now() - start;
        if (i > 0 && t < best) best = t;
      }
      printf("%s,%d,%d,%d,%.1f\n", (const char *[]){"forward", "input", "weight"}[p], rows, in, out, 2e-9 * rows * in * out / best);
    }
    free(x), free(w), free(y);
  }
  return 0;
}
