package train

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/runs/joblog"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func logFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-format", Value: command.TextLog, Usage: "text, or json: one record per line on stderr and in log-RANK.jsonl of the run directory"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "omit records below `LEVEL`: info, warn or error"},
	}
}

// logLevel checks the flags of the log.
func logLevel(c *cli.Context) (slog.Level, error) {
	if f := c.String("log-format"); f != command.TextLog && f != command.JSONLog {
		return 0, fmt.Errorf("-log-format %q: give text or json", f)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return 0, fmt.Errorf("-log-level %q: give info, warn or error", c.String("log-level"))
	}
	return level, nil
}

// logRecords converts everything written to stderr into records, if -log-format requests
// it.
func logRecords(p *command.Program, c *cli.Context) error {
	level, err := logLevel(c)
	if err == nil && c.String("log-format") == command.JSONLog {
		p.Stderr = joblog.NewLines(p.Stderr, level)
		p.Progress.SetWriter(p.Stderr)
	}
	return err
}

// rankLog is the log of a rank.
type rankLog struct {
	file   joblog.File
	status atomic.Pointer[func() rank.Status]
}

func (l *rankLog) now() (s rank.Status) {
	if f := l.status.Load(); f != nil {
		s = (*f)()
	}
	return s
}

// watch adds the current step of a job to records.
func (l *rankLog) watch(status func() rank.Status) { l.status.Store(&status) }

// logged passes warnings and reports of a job to the requested log.
func logged(p *command.Program, c *cli.Context, m *member.Member, opt *train.Options) (*rankLog, error) {
	l := &rankLog{}
	level, err := logLevel(c)
	if err != nil {
		return nil, err
	}
	if c.String("log-format") == command.TextLog {
		if level > slog.LevelInfo {
			opt.Say = func(string) {}
		}
		if level > slog.LevelWarn {
			opt.Warn = func(string) {}
		}
		return l, nil
	}
	log := joblog.New(p.Stderr, &l.file, level, m.World.Rank, m.World.Host, func() int64 { return l.now().Step })
	opt.Warn, opt.Say = func(line string) { log.Warn(line) }, func(line string) { log.Info(line) }
	began := opt.Began
	opt.Began = func() {
		began()
		if dir := l.now().RunDir; dir != "" {
			l.file.Open(filepath.Join(dir, fmt.Sprintf("log-%04d.jsonl", m.World.Rank))) // Close returns the error
		}
	}
	return l, nil
}

// end closes the file of the log.
func (l *rankLog) end(opt *train.Options) {
	if err := l.file.Close(); err != nil {
		opt.Warn(fmt.Sprintf("the log is not kept: %v", err))
	}
}
