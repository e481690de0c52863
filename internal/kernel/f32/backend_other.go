//go:build (!amd64 && !arm64) || noasm

package f32

func backends() []*backend { return nil }

func vectorFast(Rule, *constants, []float32, []float32, []float32) bool { return false }

func rowsFast(Rule, *constants, []Record, int, uint32, Part, []float32, int) bool { return false }

func sumRowsFast(_, _ [][]float32, _ int) int { return 0 }

func sumSquaresFast(*[8]float64, []float32) int { return 0 }

func sigmoidLossFast(_ *[8]float64, _, _, _ []float32) int { return 0 }
