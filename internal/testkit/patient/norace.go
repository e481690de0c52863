//go:build !race

package patient

const race = false
