package jobs

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// browser controls a page in Chromium through its DevTools protocol over a pipe: JSON messages,
// each followed by a zero byte.
type browser struct {
	t        testing.TB
	to       *os.File
	session  string
	mu       sync.Mutex
	id       int
	answers  map[int]chan json.RawMessage
	requests []string // addresses that the page asked for
	console  []string // errors and messages on its console
}

// browse opens a blank page; without Chromium the test is skipped.
func browse(t testing.TB) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil || testing.Short() {
		t.Skip("needs chromium-headless-shell")
	}
	commands, to, err := os.Pipe()
	fatal.If(t, err)
	from, events, err := os.Pipe()
	fatal.If(t, err)
	profile, err := os.MkdirTemp("", "wdlrun-browser-") // t.TempDir fails while processes of the browser still write there
	fatal.If(t, err)
	cmd := exec.CommandContext(t.Context(), path, "--no-sandbox", "--no-zygote", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{commands, events}
	fatal.If(t, cmd.Start())
	commands.Close()
	events.Close()
	b := &browser{t: t, to: to, answers: map[int]chan json.RawMessage{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(from) })
	t.Cleanup(func() {
		b.to.Close() // the browser exits when the pipe closes
		cmd.Wait()
		from.Close()
		reading.Wait()
		for range 100 {
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Runtime", "Log", "Network", "Page"} {
		b.call(domain+".enable", map[string]any{}, nil)
	}
	return b
}

func (b *browser) read(from *os.File) {
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params struct {
				Request          struct{ URL string }
				Entry            struct{ Text string }
				Type             string
				ExceptionDetails json.RawMessage
			}
			Result json.RawMessage
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "Network.requestWillBeSent":
			b.requests = append(b.requests, m.Params.Request.URL)
		case "Log.entryAdded":
			b.console = append(b.console, m.Params.Entry.Text)
		case "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			b.console = append(b.console, string(text))
		}
		if c := b.answers[m.ID]; c != nil {
			c <- m.Result
			delete(b.answers, m.ID)
		}
		b.mu.Unlock()
	}
}

// call sends a command and waits for the answer.
func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	answer := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.id++
	b.answers[b.id] = answer
	m := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-answer:
		if into != nil {
			if err := json.Unmarshal(result, into); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, result)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("the browser does not answer %s", method)
	}
}

// open loads a page.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval returns the value of an expression as a string.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct{ Result struct{ Value any } }
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")"}, &r)
	text, _ := r.Result.Value.(string)
	return text
}

// text returns the visible text of an element, or "" if the element does not exist.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return b.eval("(document.querySelector(" + quoted(selector) + ") || {innerText: ''}).innerText")
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// clean checks that the console is empty and that all requests went to one origin.
func (b *browser) clean(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.console) > 0 {
		b.t.Errorf("the console contains %q", b.console)
	}
	if i := slices.IndexFunc(b.requests, func(url string) bool { return !strings.HasPrefix(url, origin) && url != "about:blank" }); i >= 0 {
		b.t.Errorf("unexpected request to %s", b.requests[i])
	}
}

// resize sets the width of the window and the color scheme.
func (b *browser) resize(width int, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// shoot writes a screenshot of the whole page to the folder named by WDLRUN_SHOTS, for people to
// look at. It does nothing if the variable is not set.
func (b *browser) shoot(name string, width int, dark bool) {
	b.t.Helper()
	dir := os.Getenv("WDLRUN_SHOTS")
	if dir == "" {
		return
	}
	b.resize(width, dark)
	var r struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &r)
	if err := os.WriteFile(dir+"/"+name, r.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
