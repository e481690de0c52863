package input

import (
	"slices"
	"testing"
)

func FuzzSurvey(f *testing.F) {
	f.Add([]byte(surveyMagic + "\x02\x01a\x00\x03end"))
	f.Add([]byte(surveyMagic + "\x02\x01a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		counts, encoded, err := parseSurvey(b)
		if err == nil && len(slices.Concat(counts...))+len(encoded)+len(surveyMagic) >= len(b) {
			t.Errorf("%d bytes of %d", len(slices.Concat(counts...))+len(encoded), len(b))
		}
	})
}
