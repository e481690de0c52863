//go:build gpu

// The twins of the kernels, for comparisons with a device. Hidden names cannot take the
// place of those of a stand-in of the driver, which contains the same source.
#pragma GCC visibility push(hidden)

#include "twin.h"

long device_shift;

#include "src/kernels.c"

#define TWIN(name) {#name, name##_twin}
static const struct {
	const char *name;
	void (*run)(const void *args, u32 threads, int backwards);
} twins[] = {
	TWIN(bag_index), TWIN(pool), TWIN(pool_wide), TWIN(pool_grad),
	TWIN(bias_act), TWIN(act_grad), TWIN(dropout), TWIN(column_sums), TWIN(column_total), TWIN(add),
	TWIN(norm_sums), TWIN(norm_total), TWIN(norm_forward), TWIN(norm_backward), TWIN(loss),
	TWIN(cross_forward), TWIN(cross_backward), TWIN(fm_forward), TWIN(fm_total), TWIN(fm_backward),
	TWIN(cin_transpose), TWIN(cin_add_transposed), TWIN(cin_products), TWIN(cin_maps_grad), TWIN(cin_fields_grad),
	TWIN(cin_sums), TWIN(cin_spread), TWIN(sgd), TWIN(adagrad), TWIN(adam), TWIN(ftrl), TWIN(square_sums), TWIN(double_sums),
};

int kernel_twin(const char *name, const void *args, unsigned threads, long shift) {
	for (u32 i = 0; i < sizeof twins / sizeof *twins; i++) {
		const char *a = twins[i].name, *b = name;
		while (*a && *a == *b)
			a++, b++;
		if (*a == *b) {
			device_shift = shift;
			twins[i].run(args, threads, 0);
			return 1;
		}
	}
	return 0;
}
