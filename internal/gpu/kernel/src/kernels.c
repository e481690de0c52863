// The kernels of the dense part of a training step. clang compiles this file as CUDA for
// devices, and any C compiler compiles it as the CPU's twin of each kernel:
//
//	clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib ...
//	cc -shared -ffp-contract=off ...
//
// Both give the same bits. No product is fused with a sum, no function of a math library
// is called, and no two threads add to one number: a sum over a batch is one of partial
// sums in a fixed order, whatever the number of threads.
//
// A kernel has one argument, a structure of its own, which internal/gpu/kernel mirrors in
// Go. Its body runs once for each thread and takes every threads-th element from its own
// number on. Addresses are those of the device: the twin reads the memory of a simulated
// device elsewhere, so each address passes through ON before it is used.

typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDA__

#define INLINE static inline __attribute__((device))
#define UNROLL _Pragma("unroll")
#define ON(p) (p)
#define ROOT(x) __nvvm_sqrt_rn_f(x)
#define KERNEL(name)                                                                      \
	INLINE void name##_body(const struct name##_args a, u32 self, u32 threads);           \
	extern "C" __attribute__((global)) void name(const struct name##_args a) {            \
		name##_body(a,                                                                    \
			__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +              \
				__nvvm_read_ptx_sreg_tid_x(),                                             \
			__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x());             \
	}                                                                                     \
	INLINE void name##_body(const struct name##_args a, u32 self, u32 threads)

#else

#define INLINE static inline
#define UNROLL
// device_shift is from an address of the simulated device to where its bytes are.
extern long device_shift;
#define ON(p) ((__typeof__(p))((char *)(p) + device_shift))
#define ROOT(x) __builtin_sqrtf(x)
// The twin runs the threads in either order: no thread may depend on another.
#define KERNEL(name)                                                                      \
	INLINE void name##_body(const struct name##_args a, u32 self, u32 threads);           \
	void name##_twin(const void *args, u32 threads, int backwards) {                      \
		const struct name##_args a = *(const struct name##_args *)args;                   \
		for (u32 i = 0; i < threads; i++)                                                 \
			name##_body(a, backwards ? threads - 1 - i : i, threads);                     \
	}                                                                                     \
	INLINE void name##_body(const struct name##_args a, u32 self, u32 threads)

#endif

#define EACH(i, n) for (u32 i = self; i < (n); i += threads)

// power2 is 2ⁿ for the exponents of normal numbers.
INLINE double power2(int n) {
	union { u64 bits; double value; } x;
	x.bits = (u64)(n + 1023) << 52;
	return x.value;
}

// exponential is eˣ within 2 units in the last place: a Taylor polynomial of the rest
// after whole powers of 2, whose coefficients are constants, as most devices divide slowly.
INLINE double exponential(double x) {
	if (x != x)
		return x;
	if (x > 709.79)
		return 1e308 * 10;
	if (x < -745.2)
		return 0;
	int n = (int)(x * 1.4426950408889634 + (x < 0 ? -.5 : .5));
	double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10, p = 1. / 6227020800;
	p = p * r + 1. / 479001600;
	p = p * r + 1. / 39916800;
	p = p * r + 1. / 3628800;
	p = p * r + 1. / 362880;
	p = p * r + 1. / 40320;
	p = p * r + 1. / 5040;
	p = p * r + 1. / 720;
	p = p * r + 1. / 120;
	p = p * r + 1. / 24;
	p = p * r + 1. / 6;
	p = p * r + .5;
	p = p * r + 1;
	p = p * r + 1;
	return p * power2(n / 2) * power2(n - n / 2);
}

// log_1plus is log(1+x) for x in [0, 1]: twice the series of the inverse hyperbolic
// tangent of x/(2+x), which is at most 1/3.
INLINE double log_1plus(double x) {
	double s = x / (2 + x), q = s * s, p = 0;
	for (int k = 37; k > 0; k -= 2)
		p = p * q + 1. / k;
	return 2 * s * p;
}

// power2f is 2ⁿ for the exponents of normal floats.
INLINE float power2f(int n) {
	union { u32 bits; float value; } x;
	x.bits = (u32)(n + 127) << 23;
	return x.value;
}

// exponential_below0 is eˣ for x <= 0 in float32, within 2 units in the last place: many devices compute
// in double precision 64 times slower. The first part of log 2 has 10 bits, so n times it is exact.
INLINE float exponential_below0(float x) {
	if (x != x)
		return x;
	if (x < -104.f)
		return 0;
	int n = (int)(x * 1.44269504f - .5f);
	float r = (x - n * .693359375f) - n * -2.12194440e-4f, p = 1.f / 5040;
	p = p * r + 1.f / 720;
	p = p * r + 1.f / 120;
	p = p * r + 1.f / 24;
	p = p * r + 1.f / 6;
	p = p * r + .5f;
	p = r * r * p + r + 1;
	return p * power2f(n / 2) * power2f(n - n / 2);
}

// hyperbolic_tangent is tanh v within 2 units in the last place. For small v it is v + v³·P(v²), where P was
// fitted to (tanh v/v − 1)/v² at the Chebyshev points of v² from 0 to .36: 1 − e^−2v would lose digits.
INLINE float hyperbolic_tangent(float v) {
	float size = v < 0 ? -v : v, u = v * v, p = -.005883233f;
	p = p * u + .020785147f;
	p = p * u - .0537804f;
	p = p * u + .1333188f;
	p = p * u - .33333296f;
	if (size < .6f)
		return v + v * u * p;
	float e = exponential_below0(-2 * size), t = (1 - e) / (1 + e);
	return v < 0 ? -t : t;
}

// sigmoid is 1/(1 + e^−v) within 3 units in the last place.
INLINE float sigmoid(float v) {
	float e = exponential_below0(v < 0 ? v : -v);
	return (v < 0 ? e : 1) / (1 + e);
}

INLINE double logistic(double z) {
	double e = exponential(z < 0 ? z : -z);
	return (z < 0 ? e : 1) / (1 + e);
}

// ---- Pooling. The values of a batch are numbered by feature, bag and place in the bag, and its
// distinct rows by table. internal/model/step describes the arrays that connect them.

enum { none = 0xffffffff };
struct feature { u32 first, offsets, factors, deep, wide; };
struct table { u32 row, width, deep; };

// last_upto returns the last i < n with from[i*stride] <= x. The numbers ascend from at most x.
INLINE u32 last_upto(const u32 *from, u32 stride, u32 n, u32 x) {
	u32 i = 0;
	while (n - i > 1) {
		u32 mid = i + (n - i) / 2;
		if (from[mid * stride] <= x)
			i = mid;
		else
			n = mid;
	}
	return i;
}

// bag_index sets at, by value, to where its row begins. By place in order it sets deep to the
// first column of the value's bag in the input, wide to the bag, each to none where the feature
// is not used, and factor, which may be 0, to the factor of the value.
struct bag_index_args {
	u32 *at, *deep, *wide;
	float *factor;
	const struct feature *feature;
	const u32 *offsets, *place, *start, *order;
	const float *factors;
	u32 values, keys, features, rows, width, unused;
};

KERNEL(bag_index) {
	EACH(i, a.values) {
		u32 value = ON(a.order)[i], row = last_upto(ON(a.start), 1, a.keys, i);
		u32 f = last_upto(&ON(a.feature)->first, sizeof(struct feature) / sizeof(u32), a.features, value);
		const struct feature *x = ON(a.feature) + f;
		u32 own = value - x->first;
		u32 bag = x->offsets == none ? own : last_upto(ON(a.offsets) + x->offsets, 1, a.rows, own);
		ON(a.at)[value] = ON(a.place)[row];
		ON(a.deep)[i] = x->deep == none ? none : bag * a.width + x->deep;
		ON(a.wide)[i] = x->wide == none ? none : bag;
		if (a.factor)
			ON(a.factor)[i] = x->factors == none ? 1 : ON(a.factors)[x->factors + own];
	}
}

struct bags { const float *row; const u32 *at; const struct feature *feature; const u32 *offsets; const float *factors; };

// pooled adds number part of the rows of a bag, times their factors, to sum, in their order.
INLINE float pooled(const struct bags *b, u32 f, u32 bag, u32 part, float sum) {
	const struct feature *x = ON(b->feature) + f;
	u32 v = bag, end = bag + 1;
	if (x->offsets != none)
		v = ON(b->offsets)[x->offsets + bag], end = ON(b->offsets)[x->offsets + bag + 1];
	for (; v < end; v++) {
		float value = ON(b->row)[ON(b->at)[x->first + v] + part];
		sum = sum + (x->factors == none ? value : ON(b->factors)[x->factors + v] * value);
	}
	return sum;
}

// pool sets x, rows×width, to the pooled embeddings and the inputs of the network that are dense.
// column is the feature of each column, or features plus the number of the input.
struct pool_args { struct bags bags; float *x; const float *dense; const u32 *column; u32 rows, width, features, inputs; };

KERNEL(pool) {
	EACH(i, a.rows * a.width) {
		u32 bag = i / a.width, col = i % a.width, f = ON(a.column)[col];
		ON(a.x)[i] = f < a.features ? pooled(&a.bags, f, bag, col - ON(a.bags.feature)[f].deep, 0)
			: ON(a.dense)[bag * a.inputs + f - a.features];
	}
}

// pool_wide adds the wide weights of each sample to its logits, labels×rows, in the order of the
// features.
struct pool_wide_args { struct bags bags; float *logit; u32 rows, labels, features, unused; };

KERNEL(pool_wide) {
	EACH(i, a.labels * a.rows) {
		float sum = ON(a.logit)[i];
		for (u32 f = 0; f < a.features; f++) {
			u32 wide = ON(a.bags.feature)[f].wide;
			if (wide != none)
				sum = pooled(&a.bags, f, i % a.rows, wide + i / a.rows, sum);
		}
		ON(a.logit)[i] = sum;
	}
}

// pool_grad sets the gradient of each row to the sum over its values, in their order, of the
// gradients of their bags, times their factors. One thread adds all of a number: it loads ahead of
// the additions, since a frequent row has thousands of values. Adding 0 in place of what there is
// not leaves a sum as it is.
struct pool_grad_args {
	float *grad;
	const float *dx, *dlogit, *factor;
	const struct table *table;
	const u32 *place, *start, *deep, *wide;
	u32 keys, tables, widest, rows;
};

KERNEL(pool_grad) {
	enum { ahead = 24 };
	EACH(i, a.keys * a.widest) {
		u32 row = i / a.widest, col = i % a.widest;
		const struct table *t = ON(a.table) + last_upto(&ON(a.table)->row, sizeof(struct table) / sizeof(u32), a.tables, row);
		if (col >= t->width)
			continue;
		const u32 *at = col < t->deep ? ON(a.deep) : ON(a.wide);
		const float *from = col < t->deep ? ON(a.dx) + col : ON(a.dlogit) + (col - t->deep) * a.rows;
		u32 end = ON(a.start)[row + 1];
		float sum = 0;
		for (u32 v = ON(a.start)[row]; v < end; v += ahead) {
			u32 p[ahead];
			float g[ahead];
			UNROLL for (u32 k = 0; k < ahead; k++)
				p[k] = v + k < end ? at[v + k] : none;
			UNROLL for (u32 k = 0; k < ahead; k++)
				g[k] = p[k] == none ? 0 : a.factor ? ON(a.factor)[v + k] * from[p[k]] : from[p[k]];
			UNROLL for (u32 k = 0; k < ahead; k++)
				sum = sum + g[k];
		}
		ON(a.grad)[ON(a.place)[row] + col] = sum;
	}
}

// ---- Layers. B rows, in inputs, cols outputs of a layer.

enum { act_identity, act_relu, act_tanh, act_sigmoid };

// bias_act sets y = act(y + bias); bias may be 0. NaN passes through.
struct bias_act_args { float *y; const float *bias; u32 n, cols, act, unused; };

KERNEL(bias_act) {
	EACH(i, a.n) {
		float v = ON(a.y)[i];
		if (a.bias)
			v = v + ON(a.bias)[i % a.cols];
		if (a.act == act_relu)
			v = v < 0 ? 0 : v;
		else if (a.act == act_tanh)
			v = hyperbolic_tangent(v);
		else if (a.act == act_sigmoid)
			v = sigmoid(v);
		ON(a.y)[i] = v;
	}
}

// act_grad takes dy through an activation whose output is y.
struct act_grad_args { float *dy; const float *y; u32 n, act; };

KERNEL(act_grad) {
	EACH(i, a.n) {
		float g = ON(a.dy)[i], y = ON(a.y)[i];
		if (a.act == act_relu)
			g = y == 0 ? 0 : g;
		else if (a.act == act_tanh)
			g = g * (1 - y * y);
		else if (a.act == act_sigmoid)
			g = g * (y * (1 - y));
		ON(a.dy)[i] = g;
	}
}

// mix is the finaliser of SplitMix64.
INLINE u64 mix(u64 x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// dropout sets y to x times 0 or scale; y may be x. The choice is a function of the batch's
// random number, the row's number and the column, so backward needs no mask.
struct dropout_args { float *y; const float *x; const u64 *row; u64 batch; u32 n, cols, keep; float scale; };

KERNEL(dropout) {
	const u64 golden = 0x9e3779b97f4a7c15ull;
	EACH(i, a.n) {
		u64 at = mix(a.batch + ON(a.row)[i / a.cols] * golden) + (i % a.cols + 1) * golden;
		float v = ON(a.x)[i];
		ON(a.y)[i] = v * ((u32)(mix(at) >> 32) < a.keep ? a.scale : 0.f);
	}
}

// column_sums stores the sums of stretches of chunk rows: partial is chunks×cols.
struct column_sums_args { float *partial; const float *x; u32 rows, cols, chunk, unused; };

KERNEL(column_sums) {
	u32 chunks = (a.rows + a.chunk - 1) / a.chunk;
	EACH(i, chunks * a.cols) {
		u32 col = i % a.cols, from = i / a.cols * a.chunk;
		u32 to = a.rows - from < a.chunk ? a.rows : from + a.chunk;
		float sum = 0;
		for (u32 r = from; r < to; r++)
			sum = sum + ON(a.x)[r * a.cols + col];
		ON(a.partial)[i] = sum;
	}
}

// column_total sets total to the sum of the rows of partial.
struct column_total_args { float *total; const float *partial; u32 chunks, cols; };

KERNEL(column_total) {
	EACH(col, a.cols) {
		float sum = 0;
		for (u32 r = 0; r < a.chunks; r++)
			sum = sum + ON(a.partial)[r * a.cols + col];
		ON(a.total)[col] = sum;
	}
}

// add sets y = y + x.
struct add_args { float *y; const float *x; u32 n, unused; };

KERNEL(add) {
	EACH(i, a.n)
		ON(a.y)[i] = ON(a.y)[i] + ON(a.x)[i];
}

// ---- Batch normalisation. internal/kernel/norm computes the statistics of all ranks from the sums of
// one. Sums are in double precision, as on the CPU.

// norm_sums stores the sums of stretches of chunk rows: partial is chunks×cols. They are of x; of
// (x − mean)² if mean is not 0; of dy·(x − mean)·inv if dy is not 0 either.
struct norm_sums_args { double *partial; const float *x, *dy, *mean, *inv; u32 rows, cols, chunk, unused; };

KERNEL(norm_sums) {
	u32 chunks = (a.rows + a.chunk - 1) / a.chunk;
	EACH(i, chunks * a.cols) {
		u32 col = i % a.cols, from = i / a.cols * a.chunk;
		u32 to = a.rows - from < a.chunk ? a.rows : from + a.chunk;
		float mean = a.mean ? ON(a.mean)[col] : 0, inv = a.dy ? ON(a.inv)[col] : 0;
		double sum = 0;
		for (u32 r = from; r < to; r++) {
			u32 at = r * a.cols + col;
			float d = ON(a.x)[at] - mean;
			double v = d;
			if (a.dy)
				v = ON(a.dy)[at] * d * inv;
			else if (a.mean)
				v = v * v;
			sum = sum + v;
		}
		ON(a.partial)[i] = sum;
	}
}

// norm_total sets total to the sum of the rows of partial.
struct norm_total_args { float *total; const double *partial; u32 chunks, cols; };

KERNEL(norm_total) {
	EACH(col, a.cols) {
		double sum = 0;
		for (u32 r = 0; r < a.chunks; r++)
			sum = sum + ON(a.partial)[r * a.cols + col];
		ON(a.total)[col] = (float)sum;
	}
}

// norm_forward sets y = (x − mean)·inv·scale + shift.
struct norm_forward_args { float *y; const float *x, *mean, *inv, *scale, *shift; u32 n, cols; };

KERNEL(norm_forward) {
	EACH(i, a.n) {
		u32 col = i % a.cols;
		ON(a.y)[i] = (ON(a.x)[i] - ON(a.mean)[col]) * ON(a.inv)[col] * ON(a.scale)[col] + ON(a.shift)[col];
	}
}

// norm_backward takes dy through the normalisation of x. mean_dy and mean_dyx are the means over
// the batch of dy and of dy·(x − mean)·inv.
struct norm_backward_args { float *dy; const float *x, *mean, *inv, *scale, *mean_dy, *mean_dyx; u32 n, cols; };

KERNEL(norm_backward) {
	EACH(i, a.n) {
		u32 col = i % a.cols;
		float inv = ON(a.inv)[col], xhat = (ON(a.x)[i] - ON(a.mean)[col]) * inv;
		float rest = ON(a.dy)[i] - ON(a.mean_dy)[col] - xhat * ON(a.mean_dyx)[col];
		ON(a.dy)[i] = ON(a.scale)[col] * inv * rest;
	}
}

// ---- Losses.

enum { loss_log, loss_squared, loss_poisson };

// loss adds bias and net to the logits, each of which may be 0, and stores each sample's
// loss and its gradient by the logit, both times weight (0: all 1) and share.
struct loss_args {
	float *logit;
	const float *net, *bias, *label, *weight;
	float *dlogit, *loss;
	double share;
	u32 n, kind;
};

KERNEL(loss) {
	EACH(i, a.n) {
		float logit = ON(a.logit)[i];
		if (a.bias)
			logit = logit + ON(a.bias)[0];
		if (a.net)
			logit = logit + ON(a.net)[i];
		ON(a.logit)[i] = logit;
		double z = logit, y = ON(a.label)[i], w = a.weight ? ON(a.weight)[i] : 1, loss, grad;
		w = w * a.share;
		if (a.kind == loss_squared) {
			grad = z - y;
			loss = grad * grad / 2;
		} else if (a.kind == loss_poisson) {
			double mean = exponential(z);
			grad = mean - y;
			loss = mean - y * z;
		} else {
			grad = logistic(z) - y;
			loss = (z < 0 ? 0 : z) - z * y + log_1plus(exponential(z < 0 ? z : -z));
		}
		ON(a.dlogit)[i] = (float)(w * grad);
		ON(a.loss)[i] = (float)(w * loss);
	}
}

// ---- Cross network of DCN-v2.

// cross_forward adds the bias to u and sets y = x0⊙u + x.
struct cross_forward_args { float *y, *u; const float *bias, *x0, *x; u32 n, cols; };

KERNEL(cross_forward) {
	EACH(i, a.n) {
		float u = ON(a.u)[i] + ON(a.bias)[i % a.cols];
		ON(a.u)[i] = u;
		ON(a.y)[i] = ON(a.x0)[i] * u + ON(a.x)[i];
	}
}

// cross_backward sets du = dy⊙x0 and adds dy⊙u to dx0, or sets dx0 to it if first.
struct cross_backward_args { float *dx0, *du; const float *dy, *x0, *u; u32 n, first; };

KERNEL(cross_backward) {
	EACH(i, a.n) {
		float g = ON(a.dy)[i], d = g * ON(a.u)[i];
		ON(a.du)[i] = g * ON(a.x0)[i];
		ON(a.dx0)[i] = a.first ? d : ON(a.dx0)[i] + d;
	}
}

// ---- Factorization machine over rows of width columns that begin with fields embeddings
// of embed columns.

// fm_forward stores for each row and column of the embeddings their sum, and half the
// difference of the sum's square and the sum of squares.
struct fm_forward_args { float *sum, *term; const float *x; u32 rows, fields, embed, width; };

KERNEL(fm_forward) {
	EACH(i, a.rows * a.embed) {
		const float *x = ON(a.x) + i / a.embed * a.width + i % a.embed;
		float sum = 0, squares = 0;
		for (u32 f = 0; f < a.fields; f++) {
			float v = x[f * a.embed];
			sum = sum + v;
			squares = squares + v * v;
		}
		ON(a.sum)[i] = sum;
		ON(a.term)[i] = (sum * sum - squares) / 2;
	}
}

// fm_total adds the terms of a row to y.
struct fm_total_args { float *y; const float *term; u32 rows, embed; };

KERNEL(fm_total) {
	EACH(r, a.rows) {
		float sum = 0;
		for (u32 k = 0; k < a.embed; k++)
			sum = sum + ON(a.term)[r * a.embed + k];
		ON(a.y)[r] = ON(a.y)[r] + sum;
	}
}

// fm_backward adds the gradient of the embeddings to dx: dy times the sum of the others.
struct fm_backward_args { float *dx; const float *dy, *x, *sum; u32 rows, fields, embed, width; };

KERNEL(fm_backward) {
	u32 used = a.fields * a.embed;
	EACH(i, a.rows * used) {
		u32 r = i / used, col = i % used, at = r * a.width + col;
		float others = ON(a.sum)[r * a.embed + col % a.embed] - ON(a.x)[at];
		ON(a.dx)[at] = ON(a.dx)[at] + ON(a.dy)[r] * others;
	}
}

// ---- Compressed interaction network of xDeepFM. A line is one row and column of its
// embeddings. Gradients replace what is there, or are added to it if add is not 0.

// cin_transpose sets t, lines×fields, to the embeddings of x, whose rows have width columns.
struct cin_transpose_args { float *t; const float *x; u32 rows, fields, embed, width; };

KERNEL(cin_transpose) {
	u32 used = a.fields * a.embed;
	EACH(i, a.rows * used) {
		u32 line = i / a.fields, r = line / a.embed;
		ON(a.t)[i] = ON(a.x)[r * a.width + i % a.fields * a.embed + line % a.embed];
	}
}

// cin_add_transposed adds t, lines×fields, to the embeddings of x.
struct cin_add_transposed_args { const float *t; float *x; u32 rows, fields, embed, width; };

KERNEL(cin_add_transposed) {
	u32 used = a.fields * a.embed;
	EACH(i, a.rows * used) {
		u32 line = i / a.fields, r = line / a.embed, at = r * a.width + i % a.fields * a.embed + line % a.embed;
		ON(a.x)[at] = ON(a.x)[at] + ON(a.t)[i];
	}
}

// cin_products sets z, lines×(maps·fields), to the product of each map in a line with each
// field in it.
struct cin_products_args { float *z; const float *in, *x0; u32 lines, maps, fields, unused; };

KERNEL(cin_products) {
	u32 width = a.maps * a.fields;
	EACH(i, a.lines * width) {
		u32 line = i / width, col = i % width;
		ON(a.z)[i] = ON(a.in)[line * a.maps + col / a.fields] * ON(a.x0)[line * a.fields + col % a.fields];
	}
}

// cin_maps_grad computes the gradient of the maps, given that of the products.
struct cin_maps_grad_args { float *din; const float *dz, *x0; u32 lines, maps, fields, add; };

KERNEL(cin_maps_grad) {
	EACH(i, a.lines * a.maps) {
		u32 line = i / a.maps;
		float sum = 0;
		for (u32 j = 0; j < a.fields; j++)
			sum = sum + ON(a.dz)[i * a.fields + j] * ON(a.x0)[line * a.fields + j];
		ON(a.din)[i] = a.add ? ON(a.din)[i] + sum : sum;
	}
}

// cin_fields_grad computes the gradient of the fields, given that of the products.
struct cin_fields_grad_args { float *dx0; const float *dz, *in; u32 lines, maps, fields, add; };

KERNEL(cin_fields_grad) {
	EACH(i, a.lines * a.fields) {
		u32 line = i / a.fields, j = i % a.fields;
		float sum = 0;
		for (u32 k = 0; k < a.maps; k++)
			sum = sum + ON(a.dz)[(line * a.maps + k) * a.fields + j] * ON(a.in)[line * a.maps + k];
		ON(a.dx0)[i] = a.add ? ON(a.dx0)[i] + sum : sum;
	}
}

// cin_sums adds each map over the lines of a row. The sums of a row are stored in its row of
// y, which has out columns, from column at on.
struct cin_sums_args { float *y; const float *x; u32 rows, embed, maps, at, out, unused; };

KERNEL(cin_sums) {
	EACH(i, a.rows * a.maps) {
		u32 r = i / a.maps, h = i % a.maps;
		float sum = 0;
		for (u32 k = 0; k < a.embed; k++)
			sum = sum + ON(a.x)[(r * a.embed + k) * a.maps + h];
		ON(a.y)[r * a.out + a.at + h] = sum;
	}
}

// cin_spread computes the gradient of the maps, given that of their sums.
struct cin_spread_args { float *dx; const float *dy; u32 rows, embed, maps, at, out, add; };

KERNEL(cin_spread) {
	EACH(i, a.rows * a.embed * a.maps) {
		float g = ON(a.dy)[i / a.maps / a.embed * a.out + a.at + i % a.maps];
		ON(a.dx)[i] = a.add ? ON(a.dx)[i] + g : g;
	}
}

// ---- Update rules: those of internal/kernel/f32, with its constants, bit by bit.

struct update_args {
	float *w;
	const float *g;
	float *state;
	u32 n, unused;
	float scale, decay, clip, rate, epsilon;
	float beta1, rest1, beta2, rest2, unbias1, unbias2;
	float beta, l1, l2, inverse, keep;
};

INLINE float gradient(const struct update_args *a, float g, float w) {
	return a->clip * (a->scale * g + a->decay * w);
}

#define sgd_args update_args
#define adagrad_args update_args
#define adam_args update_args
#define ftrl_args update_args

KERNEL(sgd) {
	EACH(i, a.n) {
		float w = ON(a.w)[i];
		ON(a.w)[i] = w - a.rate * gradient(&a, ON(a.g)[i], w);
	}
}

KERNEL(adagrad) {
	EACH(i, a.n) {
		float w = ON(a.w)[i], x = gradient(&a, ON(a.g)[i], w);
		float s = ON(a.state)[i] + x * x;
		ON(a.state)[i] = s;
		ON(a.w)[i] = w - a.rate * x / (ROOT(s) + a.epsilon);
	}
}

KERNEL(adam) {
	EACH(i, a.n) {
		float w = ON(a.w)[i], x = gradient(&a, ON(a.g)[i], w);
		float *m = ON(a.state) + i, *v = ON(a.state) + a.n + i;
		*m = a.beta1 * *m + a.rest1 * x;
		*v = a.beta2 * *v + a.rest2 * x * x;
		ON(a.w)[i] = a.keep * w - a.rate * *m * a.unbias1 / (ROOT(*v * a.unbias2) + a.epsilon);
	}
}

KERNEL(ftrl) {
	EACH(i, a.n) {
		float w = ON(a.w)[i], x = gradient(&a, ON(a.g)[i], w);
		float *z = ON(a.state) + i, *n = ON(a.state) + a.n + i;
		float next = *n + x * x;
		float sigma = (ROOT(next) - ROOT(*n)) * a.inverse;
		*z = *z + (x - sigma * w);
		*n = next;
		float size = *z < 0 ? -*z : *z, l1 = *z < 0 ? -a.l1 : a.l1;
		ON(a.w)[i] = size <= a.l1 ? 0 : (l1 - *z) / ((a.beta + ROOT(next)) * a.inverse + a.l2);
	}
}

// square_sums stores count partial sums of the squares of scale·g + decay·w. double_sums adds numbers
// to fewer partial sums. Both have orders that only depend on count.
struct square_sums_args { double *partial; const float *g, *w; u32 n, count; float scale, decay; };

KERNEL(square_sums) {
	EACH(p, a.count) {
		double sum = 0;
		for (u32 i = p; i < a.n; i += a.count) {
			double v = a.scale * ON(a.g)[i] + a.decay * ON(a.w)[i];
			sum = sum + v * v;
		}
		ON(a.partial)[p] = sum;
	}
}

struct double_sums_args { double *total; const double *partial; u32 n, count; };

KERNEL(double_sums) {
	EACH(p, a.count) {
		double sum = 0;
		for (u32 i = p; i < a.n; i += a.count)
			sum = sum + ON(a.partial)[i];
		ON(a.total)[p] = sum;
	}
}
