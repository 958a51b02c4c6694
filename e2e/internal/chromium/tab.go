package chromium

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Tab is a page in a browser that a test drives, by the browser's debugging protocol.
type Tab struct {
	testing.TB
	ws      *websocket.Conn
	session string
	last    int
	logs    []string // what the page's console has said, and exceptions
}

// shared is the browser that all tabs are in: to start one takes longer than most tests.
var shared struct {
	sync.Mutex
	*chromium
	address string // of its debugging protocol
	tabs    int    // that are open; the browser ends with the last one
}

// join starts the shared browser, if it does not run, for as long as the test does.
func (c *chromium) join(b *Tab) (address string) {
	b.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.tabs == 0 {
		err := c.start("--hide-scrollbars", "--remote-debugging-port=0", "--remote-allow-origins=http://127.0.0.1",
			"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--disable-background-timer-throttling", "about:blank")
		if err != nil {
			b.Fatal(err)
		}
		shared.chromium = c
	}
	shared.tabs++
	b.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.tabs--; shared.tabs == 0 {
			shared.Close()
		}
	})
	b.Await("the browser listens", func() bool {
		select {
		case <-shared.Exited:
			b.Fatalf("the browser ended: %s", &shared.Stderr)
		case <-time.After(10 * time.Millisecond): // the file has no event
		}
		text, err := os.ReadFile(filepath.Join(shared.profile, "DevToolsActivePort"))
		port, path, found := strings.Cut(strings.TrimSpace(string(text)), "\n")
		shared.address = "127.0.0.1:" + port + path
		return err == nil && found
	})
	return shared.address
}

// Drive opens an empty page, which has the focus and shares nothing with those of other tests.
func (c *chromium) Drive(t *testing.T) *Tab {
	t.Helper()
	b := &Tab{TB: t}
	ws, err := websocket.Dial("ws://"+c.join(b), "", "http://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	b.ws = ws
	b.ws.MaxPayloadBytes = 64 << 20
	var profile struct{ BrowserContextID string }
	b.Call("Target.createBrowserContext", nil, &profile)
	var made struct{ TargetID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile.BrowserContextID}, &made)
	var attached struct{ SessionID string }
	b.Call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	t.Cleanup(func() {
		b.session = "" // the browser's own
		_ = b.try("Target.disposeBrowserContext", map[string]any{"browserContextId": profile.BrowserContextID}, nil)
		_ = b.ws.Close() // the test has ended
	})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Call(domain+".enable", nil, nil)
	}
	b.Call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	return b
}

// Await waits until something is true.
func (b *Tab) Await(what string, is func() bool) {
	b.Helper()
	for late := testenv.BeginWait(); !is(); {
		if late.Over() {
			b.Fatalf("after %s it was not true yet that %s", late, what)
		}
	}
}

// Call sends a command, which succeeds, and decodes its result.
func (b *Tab) Call(method string, params, result any) {
	b.Helper()
	if err := b.try(method, params, result); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}

// try sends a command. It returns what the browser has against it.
func (b *Tab) try(method string, params, result any) error {
	b.Helper()
	b.last++
	if err := b.ws.SetDeadline(time.Now().Add(testenv.Patience())); err != nil {
		b.Fatal(err)
	}
	command := map[string]any{"id": b.last, "method": method, "params": params}
	if params == nil {
		delete(command, "params")
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	if err := websocket.JSON.Send(b.ws, command); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
	for {
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := websocket.JSON.Receive(b.ws, &m); err != nil {
			b.Fatalf("%s: %v", method, err)
		}
		switch {
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled":
			b.logs = append(b.logs, string(m.Params))
		case m.ID != b.last:
		case m.Error != nil:
			return errors.New(m.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// Eval runs a script in the page and returns its value as JSON.
func (b *Tab) Eval(script string) string {
	b.Helper()
	value, err := b.run(script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return value
}

// run is eval for scripts that may fail.
func (b *Tab) run(script string) (string, error) {
	b.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	err := b.try("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &r)
	if err == nil && r.ExceptionDetails != nil {
		err = errors.New(r.ExceptionDetails.Exception.Description)
	}
	return string(r.Result.Value), err
}

// RunFirst has the pages that open from now on run a script before their own.
func (b *Tab) RunFirst(script string) {
	b.Helper()
	b.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}

// Until waits until a script is true. It fails as long as a page is under way.
func (b *Tab) Until(what, script string) {
	b.Helper()
	for late := testenv.BeginWait(); ; <-time.After(20 * time.Millisecond) { // pages tell no test what they have drawn
		if value, err := b.run(script); err == nil && value == "true" {
			return
		}
		if late.Over() {
			b.Fatalf("after %s it was not true yet that %s: the page (%s) shows\n%s\nand its log has\n%.2000s", testenv.Patience(), what,
				b.Eval("`${location.href}, ${document.readyState}, ${document.visibilityState}, ${performance.getEntriesByType('resource').length} files`"),
				b.Eval("document.body?.innerText ?? null"), strings.Join(b.logs, "\n"))
		}
	}
}

// Sees waits for a text on the page.
func (b *Tab) Sees(text string) {
	b.Helper()
	b.Until("the page shows "+text, fmt.Sprintf("document.body.innerText.includes(%s)", Quoted(text)))
}

// Open goes to an address, and waits until what the page showed before is gone: the
// console draws a view of the same page only after the address has changed.
func (b *Tab) Open(url string) {
	b.Helper()
	b.Eval(fmt.Sprintf(`{ const view = document.querySelector("main > *"); if (view && location.href !== %s) view.dataset.left = "" }`, Quoted(url)))
	var gone struct{ ErrorText string }
	b.Call("Page.navigate", map[string]any{"url": url}, &gone)
	if gone.ErrorText != "" {
		b.Fatalf("the browser does not go to %s: %s", url, gone.ErrorText)
	}
	b.Until("the view before is gone", `document.querySelector("[data-left]") === null`)
}

// Click presses the first button or link with this text.
func (b *Tab) Click(text string) {
	b.Helper()
	b.click(`[...document.querySelectorAll("dialog[open] button, dialog[open] a")].concat([...document.querySelectorAll("button, a")])`, text)
}

// ClickInTable presses a button of a table: the page around it may have one with the same text.
func (b *Tab) ClickInTable(text string) {
	b.Helper()
	b.click(`[...document.querySelectorAll("tbody button")]`, text)
}

func (b *Tab) click(among, text string) {
	b.Helper()
	found := fmt.Sprintf(`%s.find((e) => e.innerText.trim() === %s && !e.disabled)`, among, Quoted(text))
	b.Until("there is a button "+text, "("+found+") !== undefined")
	b.Eval("void (" + found + ").click()")
}

// Enter puts a text into the input with this name.
func (b *Tab) Enter(name, text string) {
	b.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] [name=%[1]s]"), ...document.querySelectorAll("[name=%[1]s]")][0]`, name)
	b.Until("there is an input "+name, found+" !== undefined")
	b.Eval(fmt.Sprintf(`{ const e = %s; e.focus(); e.value = %s; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})) }`, found, Quoted(text)))
}

func Quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have a form
	}
	return string(q)
}

// Picture writes what the page shows to a file.
func (b *Tab) Picture(file string, width, height int, scheme string) {
	b.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	var shot struct{ Data string }
	form := map[string]any{"format": "png"}
	if filepath.Ext(file) == ".webp" {
		form = map[string]any{"format": "webp", "quality": 80}
	}
	b.Call("Page.captureScreenshot", form, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// Shows waits until an answer of the HTTP interface contains texts.
func (b *Tab) Shows(p *testenv.Process, path string, texts ...string) {
	b.Helper()
	var body string
	defer func() {
		if b.Failed() {
			b.Logf("%s: %s", path, body)
		}
	}()
	b.Await(fmt.Sprintf("%s has %q", path, texts), func() bool {
		_, body = pqd.Get(b.TB, p.HTTP+path)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return true
	})
}

// Press presses the button of the dialog.
func (b *Tab) Press(text string) {
	b.Helper()
	b.Until("there is a dialog", `document.querySelector("dialog[open]") !== null`)
	b.Click(text)
}

// Module has the page run a script with a module of the console, and compares what it returns.
func (b *Tab) Module(name, script, want string) {
	b.Helper()
	var got string
	if err := json.Unmarshal([]byte(b.Eval(fmt.Sprintf(`import("/console/%s.js").then(%s).then((all) => all.join("\n"))`, name, script))), &got); err != nil {
		b.Fatal(err)
	}
	if got != want {
		b.Errorf("%s.js: %s\nreturns\n%s\nexpected\n%s", name, script, got, want)
	}
}

var pictures = flag.String("pq.pictures", "", "directory for pictures of the console's views; empty: none are made")

// Defects fails the test if a script of the page failed, or the page broke its own policy.
func (b *Tab) Defects() {
	b.Helper()
	b.Eval("0") // what was logged until now is here
	for _, line := range b.logs {
		if strings.Contains(line, "exceptionThrown") || strings.Contains(line, "Content Security Policy") || strings.Contains(line, "TrustedHTML") || strings.Contains(line, `"exceptionDetails"`) {
			b.Errorf("the page has a defect: %.1000s", line)
		}
	}
	b.logs = nil
}

// Take makes pictures of a view, at three widths in both themes, if they are asked for.
func (b *Tab) Take(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	for _, width := range []int{375, 900, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			b.Picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), width, 900, scheme)
		}
	}
}
