package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// Two ranks save their sections. Later, one process loads all of them.
func Example() {
	root, err := os.MkdirTemp("", "checkpoints")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	files := make([]checkpoint.File, 2)
	for rank := range files { // in a job, each iteration is a separate process
		files[rank], err = saveRank(root, 412, rank, len(files))
		if err != nil {
			log.Fatal(err) // after checkpoint.Abandon(root, 412), on one rank
		}
	}
	cursor := map[string]json.RawMessage{"samples": json.RawMessage("105472")}
	err = checkpoint.Commit(root, checkpoint.Manifest{Step: 412, Files: files, Meta: cursor}) // on one rank
	if err != nil {
		log.Fatal(err)
	}

	whole := func(c *checkpoint.Checkpoint) error { return c.Verify(context.Background()) }
	c, refused, err := checkpoint.Latest(root, whole)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("step", c.Step(), "refused", len(refused), "samples", string(c.Manifest().Meta["samples"]))
	for _, name := range c.Names() {
		err := c.Read(name, func(r io.Reader) error {
			b, err := io.ReadAll(r)
			fmt.Printf("%s: %s\n", name, b)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// step 412 refused 0 samples 105472
	// shard/0: rows of rank 0
	// shard/1: rows of rank 1
}

func saveRank(root string, step int64, rank, size int) (checkpoint.File, error) {
	w, err := checkpoint.Create(root, step, rank, size)
	if err != nil {
		return checkpoint.File{}, err
	}
	defer w.Discard()
	err = w.Section(fmt.Sprintf("shard/%d", rank), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "rows of rank %d", rank)
		return err
	})
	if err != nil {
		return checkpoint.File{}, err
	}
	return w.Close()
}
