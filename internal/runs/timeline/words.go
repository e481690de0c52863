package timeline

import "fmt"

// short formats a time with three digits.
func short(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", 1e3*s)
	}
	return fmt.Sprintf("%.3g µs", 1e6*s)
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
