package synth_test

import (
	"fmt"
	"log"
	"os"

	"github.com/wdlrun/wdlrun/internal/data/synth"
)

func ExampleGenerator_Write() {
	f, err := os.CreateTemp("", "clicks-*.tsv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	g, err := synth.New("criteo")
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Write(f, 0, 1000); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	chance, _ := g.Truth(0)
	fmt.Printf("%d columns, row 0 was clicked with probability %.3f\n", len(g.Header()), chance)
	// Output: 40 columns, row 0 was clicked with probability 0.440
}
