//go:build race

package patient

const race = true
