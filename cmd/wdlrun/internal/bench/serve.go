package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/bench/serve"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func benchServeCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "measure the latency of a server under an open load",
		UsageText: "wdlrun bench serve -target ADDRESS -model NAME -data FILE [flags]",
		Description: `Sends Predict requests of TensorFlow Serving's API over gRPC when they are due, whether or
not earlier ones were answered. A latency is measured from the time at which the request was
due. The lateness of the sender is reported separately, because it is not caused by the server.

The requests are made from the records of -data, with one tensor per field. Fields of -shared
have one value for all rows of a request. An echo server in a separate process answers the same
requests with as many bytes. At most 10,000 requests wait for an answer. Target and echo server are measured by turns. The echo server is
the lower bound on this machine, and "above" is the target's quantile minus the echo server's.

-swap 5s switches to another version every 5 s during the load, by HandleReloadConfigRequest.
It takes the versions in -base in ascending order, repeatedly. Requests in progress or due
during a switch, or up to 1 s after it, are reported as "switched", others as "calm". Afterwards
the target serves only this model, in the version of the last switch.

To measure a server on one core and the sender on another, run the server with taskset -c 0 and
this command with taskset -c 1.

Examples:
   wdlrun bench serve -target localhost:8500 -model ctr -data day.csv -rate 1308 -d 60s
   wdlrun bench serve -target localhost:8500 -model ctr -data day.csv -fields user,item,age -shared user -rows 100 -arrivals constant -json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "target", Usage: "measure the server at `ADDRESS`, such as localhost:8500"},
			&cli.StringFlag{Name: "model", Usage: "send requests to model `NAME`"},
			&cli.StringFlag{Name: "data", Usage: "make requests from the records of `FILE`"},
			&cli.StringFlag{Name: "config", Usage: "take the format of the records from configuration `FILE`", DefaultText: "detected"},
			&cli.StringFlag{Name: "fields", Usage: "send the fields `NAMES`, separated by commas", DefaultText: "all"},
			&cli.StringFlag{Name: "shared", Usage: "send one value per request for the fields `NAMES`, separated by commas"},
			&cli.IntFlag{Name: "rows", Value: 100, Usage: "send `N` rows per request"},
			&cli.Float64Flag{Name: "rate", Value: 100, Usage: "send `R` requests per second"},
			&cli.StringFlag{Name: "arrivals", Value: "poisson", Usage: "send requests at intervals that are `HOW`: " + strings.Join(serve.Arrivals(), " or ")},
			&cli.DurationFlag{Name: "d", Value: 60 * time.Second, Usage: "measure each server for `DURATION`"},
			&cli.DurationFlag{Name: "turn", Value: 10 * time.Second, Usage: "change to the other server after `DURATION`"},
			&cli.IntFlag{Name: "connections", Value: 1, Usage: "open `N` connections to each server"},
			&cli.DurationFlag{Name: "timeout", Value: 10 * time.Second, Usage: "count a request without an answer after `DURATION` as failed"},
			&cli.DurationFlag{Name: "swap", Usage: "switch the target to the next version in -base after each `DURATION`", DefaultText: "none"},
			&cli.StringFlag{Name: "base", Usage: "with -swap: the versions are in `DIR`, which the target reads too"},
			&cli.BoolFlag{Name: "no-echo", Usage: "do not measure an echo server"},
			&cli.IntFlag{Name: "echo", Hidden: true, Usage: "be an echo server that answers with `N` bytes until standard input ends"},
			command.JSONFlag(),
		},
		Action: p.Action(benchServe),
	}
}

func benchServe(p *command.Program, c *cli.Context) error {
	if c.IsSet("echo") {
		return echo(c.Context, p, c.Int("echo"))
	}
	for _, name := range []string{"target", "model", "data"} {
		if c.String(name) == "" {
			return fmt.Errorf("bench serve: -%s is missing: wdlrun bench serve -target ADDRESS -model NAME -data FILE", name)
		}
	}
	if c.IsSet("swap") != c.IsSet("base") {
		return errors.New("bench serve: -swap 5s needs -base DIR, the folder of the versions, and the reverse")
	}
	if err := command.Positive(c, "swap", "rows", "rate", "d", "turn", "connections", "timeout"); err != nil {
		return err
	}
	source, err := requestSource(c)
	if err != nil {
		return fmt.Errorf("bench serve: %w", err)
	}
	const (
		different  = 64 // enough distinct requests that no cache of the target has the answer
		maxPending = 10_000
	)
	o := serve.Options{
		Load:   serve.Load{Rate: c.Float64("rate"), Arrivals: c.String("arrivals"), Timeout: c.Duration("timeout"), MaxPending: maxPending},
		Target: c.String("target"), Connections: c.Int("connections"), Time: c.Duration("d"), Turn: c.Duration("turn"),
		Swap: c.Duration("swap"), Model: c.String("model"), Base: c.String("base"),
	}
	if o.Requests, err = serve.MakeRequests(c.Context, serve.Records{
		Source: source, Files: []string{c.String("data")}, Fields: listed(c.String("fields")), Shared: listed(c.String("shared")),
		Model: c.String("model"), Rows: c.Int("rows"), Requests: different,
	}); err != nil {
		return err
	}
	if !c.Bool("no-echo") {
		o.StartEcho = func(bytes int) (address string, stop func(), err error) { return startEcho(p, bytes) }
	}
	r, err := serve.Run(c.Context, o)
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(r)
	}
	return printServed(p.Stdout, r)
}

// listed splits names at commas.
func listed(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// requestSource returns the source settings of the records of the requests.
func requestSource(c *cli.Context) (schema.Source, error) {
	if path := command.PathOf(c, "config"); path != "" {
		cfg, err := config.Load(path)
		if err != nil {
			return schema.Source{}, err
		}
		return inspect.For(cfg.Data, []string{c.String("data")})
	}
	seen, err := inspect.First(c.String("data"), 0)
	if err != nil {
		return schema.Source{}, err
	}
	return seen.Source(), nil
}

// echo runs an echo server. It prints its address. It ends when its standard input ends,
// which also happens if the process that started it is killed.
func echo(ctx context.Context, p *command.Program, bytes int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, l.Addr())
	return serve.Echo(ctx, l, bytes)
}

// startEcho starts an echo server as a process.
func startEcho(p *command.Program, bytes int) (address string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "bench", "serve", "-echo", fmt.Sprint(bytes))
	cmd.Stderr = p.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait() // its exit status does not matter
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, errors.New("bench serve: the echo server does not start")
	}
	return strings.TrimSpace(line), stop, nil
}

// printServed prints a measurement as text.
func printServed(w io.Writer, r serve.Result) error {
	fmt.Fprintf(w, "%s: %v requests/s, %s arrivals, %.0f s in %s; requests of %d bytes, answers of %d\n",
		r.Target, r.Rate, r.Arrivals, r.Seconds, plural.Of(r.Turns, "turn"), r.RequestBytes, r.AnswerBytes)
	fmt.Fprintf(w, "%-14s %9s %9s %9s %9s %9s ms\n", "", "p50", "p90", "p99", "p99.9", "max")
	line := func(name string, q serve.Quantiles) {
		fmt.Fprintf(w, "%-14s %9.3f %9.3f %9.3f %9.3f %9.3f\n", name, q.P50, q.P90, q.P99, q.P999, q.Max)
	}
	line("target", r.Measured.Latency)
	if r.Echo != nil {
		line("echo", r.Echo.Latency)
		line("above", *r.Above)
	}
	if x := r.Measured.Swap; x != nil {
		line("calm", x.Calm)
		line("switched", x.Switched)
		for _, s := range x.Switches {
			fmt.Fprintf(w, "switched to version %d in %.3f s\n", s.Version, s.Seconds)
		}
	}
	line("sender's late", r.Measured.Lateness)
	if r.Echo != nil {
		line("  at the echo", r.Echo.Lateness)
	}
	for name, s := range map[string]*serve.Server{"target": &r.Measured, "echo": r.Echo} {
		if s != nil && len(s.Failed) > 0 {
			fmt.Fprintf(w, "%s: %d requests answered; failed by code: %v\n", name, s.Requests, s.Failed)
		}
	}
	return nil
}
