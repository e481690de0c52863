// Command embedding trains a model of its own with packages sparse and
// collective: matrix factorisation of ratings (Koren, Bell and Volinsky 2009),
//
//	r̂ = μ + b(user) + b(item) + p(user)·q(item)
//
// where p, q and both b are rows of two tables spread over the ranks.
//
//	go build -o embedding ./examples/embedding
//	wdlrun -np 2 ./embedding
//	wdlrun -np 2 ./embedding -ratings ml-latest-small/ratings.csv
//
// Without -ratings it trains on synthetic ratings, which a model of this form
// generates. The defaults of -rate and -l2 suit these. Choose other values for
// your own ratings. The program also runs under mpirun, under srun and alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/member"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "embedding:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("embedding", flag.ContinueOnError)
	f.StringVar(&o.ratings, "ratings", "", "`file` of lines userId,movieId,rating,timestamp (MovieLens ratings.csv)")
	f.IntVar(&o.dim, "dim", 16, "factors of a user or an item")
	f.IntVar(&o.epochs, "epochs", 10, "passes over the ratings")
	f.IntVar(&o.batch, "batch", 1024, "ratings of a step, over all ranks")
	f.Float64Var(&o.rate, "rate", 0.1, "learning rate")
	f.Float64Var(&o.l2, "l2", 0.2, "L2 regularisation of the rows a step touches")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.dim < 1 || o.epochs < 1 || o.batch < 1 || f.NArg() > 0 {
		return o, fmt.Errorf("-dim, -epochs and -batch are at least 1, and nothing follows the flags: have %d, %d, %d and %q", o.dim, o.epochs, o.batch, f.Args())
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return member.Run(context.Background(), func(_ context.Context, m *member.Member) error {
		if m.World.Rank != 0 {
			out = io.Discard
		}
		return trainAll(m.Comm, o, out)
	})
}

// trainAll is the whole job of one rank. Every rank reads all ratings, which are
// small, and trains and tests on those whose number is its own modulo P.
func trainAll(comm *collective.Comm, o options, out io.Writer) error {
	all, err := load(o.ratings)
	if err != nil {
		return err
	}
	train, test := split(all)
	if len(train) == 0 || len(test) == 0 {
		return fmt.Errorf("%d ratings to train on and %d to test on: more are needed", len(train), len(test))
	}
	model, err := newModel(comm, o, mean(train))
	if err != nil {
		return err
	}
	defer model.store.Close()
	fmt.Fprintf(out, "%d ratings to train on, %d to test on, %d ranks\n", len(train), len(test), comm.Size())
	for epoch := range o.epochs {
		shuffle(train, uint64(epoch))
		trained, err := model.pass(train, true)
		if err != nil {
			return err
		}
		tested, err := model.pass(test, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "epoch %2d  RMSE %.4f on training ratings, %.4f on test ratings\n", epoch+1, trained, tested)
	}
	return model.report(out)
}
