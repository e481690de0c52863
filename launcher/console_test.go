package launcher

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/rank"
)

// TestLines: output is forwarded in whole lines with a prefix, and long lines are split.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		writes []string
		want   string
	}{
		{[]string{"one\ntwo\n"}, "[3] one\n[3] two\n"},
		{[]string{"o", "n", "e\ntw", "o"}, "[3] one\n[3] two\n"},
		{[]string{"\n\n"}, "[3] \n[3] \n"},
		{[]string{"bar\rbar\n"}, "[3] bar\rbar\n"},
		{nil, ""},
		{[]string{strings.Repeat("x", maxLine)}, "[3] " + strings.Repeat("x", maxLine) + "\n"},
		{[]string{strings.Repeat("x", maxLine+1) + "\n"}, "[3] " + strings.Repeat("x", maxLine) + "\n[3] x\n"},
		{[]string{strings.Repeat("x", maxLine-1) + "é\n"}, "[3] " + strings.Repeat("x", maxLine-1) + "\n[3] é\n"},
	} {
		var b bytes.Buffer
		l := newLines(&console{stderr: &b}, &b, 3, true)
		for _, w := range c.writes {
			if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatal(n, err)
			}
		}
		l.flush()
		l.flush()
		if got := b.String(); got != c.want {
			t.Errorf("%.50q: got %.80q (%d)", c.writes, got, len(got))
		}
	}
}

// TestLinesLoseNothing: the text without prefixes does not depend on how the output is split
// into writes, except for the end of the last line.
func TestLinesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		l := newLines(&console{stderr: &b}, &b, 3, false)
		want := ""
		for range rapid.IntRange(0, 8).Draw(t, "writes") {
			w := rapid.StringMatching(`[ab\n]{0,9}`).Draw(t, "text")
			want += w
			l.Write([]byte(w))
		}
		l.flush()
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if b.String() != want {
			t.Fatalf("got %q, want %q", b.String(), want)
		}
	})
}

// TestLinesOfManyRanksStayWhole: lines of ranks that write concurrently are not mixed.
func TestLinesOfManyRanksStayWhole(t *testing.T) {
	var b bytes.Buffer
	c := &console{stderr: &b}
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			l := newLines(c, &b, r, true)
			for range 200 {
				for _, piece := range []string{"rank ", fmt.Sprint(r), " line\n"} {
					l.Write([]byte(piece))
				}
			}
		})
	}
	wg.Wait()
	for line := range strings.Lines(b.String()) {
		if !regexp.MustCompile(`^\[(\d)\] rank \d line\n$`).MatchString(line) || line[1] != line[9] {
			t.Fatalf("%q", line)
		}
	}
}

// TestProgressIsNotGarbled: on a terminal the progress line is erased before a line of a rank
// and printed again after it.
func TestProgressIsNotGarbled(t *testing.T) {
	var out, screen bytes.Buffer
	c := &console{stderr: &screen}
	d := newDisplay(c, time.Time{})
	d.terminal, d.width = true, func() int { return 20 }
	at := time.Time{}.Add(time.Second)
	d.update(at, rank.Status{Step: 1, Steps: 2, Phase: "x", Loss: .5})
	newLines(c, &out, 0, true).Write([]byte("hello\n"))
	d.update(at, rank.Status{Step: 1, Steps: 2, Phase: "x", Loss: .5}) // nothing has changed
	d.end()
	const clear, line = "\r\x1b[K", "step 1/2 · loss 0.5"
	if want := clear + line + clear + line + clear; screen.String() != want {
		t.Errorf("got  %q\nwant %q", screen.String(), want)
	}
	if out.String() != "[0] hello\n" {
		t.Errorf("%q", out.String())
	}
}

// TestPlainProgressIsSparse: there are at most 20 lines of progress in half an hour, and the
// first appears after a second.
func TestPlainProgressIsSparse(t *testing.T) {
	var screen bytes.Buffer
	d := newDisplay(&console{stderr: &screen}, time.Time{})
	for ms := 0; ms < 1800_000; ms += 150 {
		d.update(time.Time{}.Add(time.Duration(ms)*time.Millisecond), rank.Status{Step: int64(ms), Steps: 1800_000, Phase: "compute"})
		if n := strings.Count(screen.String(), "\n"); ms == 1500 && n != 1 {
			t.Errorf("%d lines after 1.5 s", n)
		}
	}
	d.end()
	if n := strings.Count(screen.String(), "\n"); n > 20 || n < 10 {
		t.Errorf("%d lines", n)
	}
}

// TestProgressLine compares the progress line with the expected one.
func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		s    rank.Status
		at   time.Duration
		want string
	}{
		{rank.Status{Step: 50, Steps: 200, Epoch: 2, Epochs: 5, Samples: 9, SamplesPerSecond: 123456, Loss: .31416}, 20 * time.Second,
			"step 50/200 · epoch 2/5 · 123k samples/s · loss 0.3142 · 0:20"},
		{rank.Status{Phase: "scan"}, 3 * time.Second, "scan · 0:03"},
		{rank.Status{Step: 3, Epoch: 1, Phase: "compute"}, 2 * time.Hour, "step 3 · epoch 1 · 2:00:00"},
		{rank.Status{Step: 3, Span: 2}, 2 * time.Hour, "step 3 · span 2 · 2:00:00"},
		{rank.Status{Step: 1, Steps: math.MaxInt64}, time.Hour, "step 1/9223372036854775807 · 1:00:00"},
		{rank.Status{Step: 9, Steps: 4, Loss: math.NaN()}, time.Second, "step 9/4 · loss NaN · 0:01"},
	} {
		if got := progressLine(c.s, c.at, &progressPace{}); got != c.want || !utf8.ValidString(got) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	for x, want := range map[float64]string{0: "0", 7: "7", 999: "999", 999.6: "1k", 1234: "1.23k", 999499: "999k", 999600: "1M", 2.5e6: "2.5M", math.Inf(1): "?"} {
		if got := short(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

// TestPace: the remaining time follows from the steps done, without the steps before a resume.
// It does not grow while a rank makes no progress, which is reported.
func TestPace(t *testing.T) {
	var p progressPace
	status := func(step int64) rank.Status { return rank.Status{Step: step, Steps: 1400, Phase: "compute"} }
	line := func(step int64, at time.Duration) string {
		p.record(status(step), at)
		return progressLine(status(step), at, &p)
	}
	for _, c := range []struct {
		step int64
		at   time.Duration
		want string
	}{
		{1000, 10 * time.Second, "step 1000/1400 · 0:10"},
		{1100, 20 * time.Second, "step 1100/1400 · 0:30 left"},
		{1100, 24 * time.Second, "step 1100/1400 · 0:30 left"},
		{1100, 50 * time.Second, "step 1100/1400 · 0:30 left · no step for 0:30"},
		{1101, 51 * time.Second, "step 1101/1400 · 2:01 left"},
		{900, 60 * time.Second, "step 900/1400 · 1:00"},
	} {
		if got := line(c.step, c.at); got != c.want {
			t.Errorf("%v: got %q, want %q", c.at, got, c.want)
		}
	}
}

// TestTimeLeftIsRecent: with a speed, the remaining time follows from the recent speed and the samples
// of recent steps. An evaluation between steps does not change it.
func TestTimeLeftIsRecent(t *testing.T) {
	var p progressPace
	at, s := time.Duration(0), rank.Status{Steps: 100_000, SamplesPerSecond: 2560, MayEnd: true}
	for range 100 {
		at, s.Step, s.Samples = at+time.Second, s.Step+100, s.Samples+25_600 // 100 steps per second
		p.record(s, at)
	}
	for range 20 {
		at, s.Step, s.Samples = at+time.Second, s.Step+10, s.Samples+2560 // 10 steps per second
		p.record(s, at)
	}
	at += time.Minute
	s.Step, s.Samples = s.Step+10, s.Samples+2560
	p.record(s, at)
	if got := progressLine(s, at, &p); got != "step 10210/100000 · 2.56k samples/s · at most 2:29:39 left" {
		t.Error(got)
	}
}

// TestProgressOfAnotherLauncher: a coordinator in rank 0 accepts a status although no launcher
// waits for the first step.
func TestProgressOfAnotherLauncher(t *testing.T) {
	host := NewProgress(io.Discard)
	for step := range int64(2) {
		host.Status(0, rank.Status{Step: step, Steps: 2, Samples: 64 * step})
	}
	host.Ended(nil)
}
