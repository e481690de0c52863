package train

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/runs/mlflow"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func liveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "web", Usage: "serve a live page about the training, and /metrics, at `ADDRESS` of rank 0's host, such as 127.0.0.1:6060"},
		runs.TokenFlag(),
		&cli.StringFlag{Name: "trace", Value: "on", Usage: "record a timeline of each rank: on (about the last ten thousand steps), off, or `STEPS` such as steps=100-200"},
		&cli.BoolFlag{Name: "tensorboard", Usage: "write event files for TensorBoard into tb of the run directory"},
		&cli.StringFlag{Name: "mlflow", Usage: "send settings and metrics to the tracking server of MLflow at `ADDRESS` while training, such as http://127.0.0.1:5000, and at the end the report and the ONNX model"},
		&cli.StringFlag{Name: "metrics", Usage: "serve metrics for Prometheus at `ADDRESS` of rank 0's host, path /metrics"},
	}
}

// checkLive checks the flags of the page and the metrics.
func checkLive(c *cli.Context) error {
	if err := runs.CheckWeb(c); err != nil {
		return err
	}
	if c.IsSet("mlflow") {
		if _, err := mlflow.NewServer(c.String("mlflow"), os.Getenv); err != nil {
			return fmt.Errorf("-mlflow: %w", err)
		}
	}
	if c.IsSet("metrics") {
		if err := live.Check(c.String("metrics"), true); err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
	}
	return nil
}

// shown is the live display of a training, and what sends it to MLflow. The zero value shows nothing.
type shown struct {
	board  *live.Board
	server *live.Server
	track  *tracked
}

// showLive serves the requested page and metrics on rank 0, and adds to opt the functions
// that fill them. If it cannot listen on an address, it warns and the training continues.
func showLive(c *cli.Context, m *member.Member, opt *train.Options) (s shown, err error) {
	if err := checkLive(c); err != nil || m.World.Rank != 0 {
		return s, err
	}
	if s.track, err = trackLive(c, opt); err != nil || !c.IsSet("web") && !c.IsSet("metrics") {
		return s, err
	}
	token, err := runs.Secret(c)
	if err != nil {
		return s, err
	}
	hosts := opt.Hosts
	s.board = live.NewBoard(live.Info{Version: command.Version, Hosts: hosts})
	warn, say := opt.Warn, opt.Say
	opt.Board = s.board
	opt.Warn = func(line string) { s.board.Log(line, true); warn(line) }
	opt.Say = func(line string) { s.board.Log(line, false); say(line) }
	listen := func(flag, what, path string) (all []net.Listener) {
		if !c.IsSet(flag) {
			return nil
		}
		ln, err := net.Listen("tcp", c.String(flag))
		if err != nil {
			opt.Warn(fmt.Sprintf("%s not served, and training continues: %v; try: -%s with another port", what, err, flag))
			return nil
		}
		opt.Say(fmt.Sprintf("%s: http://%s%s", what, runs.Reachable(ln.Addr(), os.Hostname), path))
		return []net.Listener{ln}
	}
	web := listen("web", "live page", "/")
	s.server = live.Serve(s.board, token, web, listen("metrics", "metrics", "/metrics"))
	return s, nil
}

// watch makes the page show the status of a job.
func (s shown) watch(status func() rank.Status) {
	s.board.Watch(status)
	s.track.watch(status)
}

// end shows the end of the training, and stops serving.
func (s shown) end(r report.Result, err error) {
	s.track.end(r, err)
	switch {
	case err != nil:
		s.board.End(err.Error(), false)
	case r.Stopped:
		s.board.End(fmt.Sprintf("stopped after step %d, as asked", r.Steps), true)
	case r.Test != nil:
		s.board.End(plural.Of(int(r.Steps), "step")+"; test data: "+r.Test.Brief(), true)
	default:
		s.board.End(plural.Of(int(r.Steps), "step"), true)
	}
	s.server.Close()
}

// recorder returns the recorder for the value of -trace.
func recorder(c *cli.Context) (*trace.Recorder, error) {
	value := c.String("trace")
	steps, some := strings.CutPrefix(value, "steps=")
	switch {
	case value == "on":
		return trace.New(traceSpans), nil
	case value == "off":
		return trace.New(0), nil
	case !some:
		return nil, fmt.Errorf("-trace %q: give on, off or steps=FIRST-LAST, such as steps=100-200", value)
	}
	from, to, _ := strings.Cut(steps, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if err != nil || err2 != nil || first < 1 || last < first {
		return nil, fmt.Errorf("-trace %q: the steps must be two numbers from 1 on, such as steps=100-200", value)
	}
	rec := trace.New(traceSpans)
	rec.Only(first, last)
	return rec, nil
}

// traceSpans is the number of spans kept of a rank's timeline: about the last ten thousand
// steps, 1.5 MB of which .9 MB are used.
const traceSpans = 1 << 16
