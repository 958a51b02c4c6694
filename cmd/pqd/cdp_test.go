package main_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// tab is a page in a browser that a test drives, by the browser's debugging protocol.
type tab struct {
	testing.TB
	ws      *websocket.Conn
	session string
	last    int
	logs    []string // what the page's console has said, and exceptions
}

// drive starts the browser with an empty page.
func (c *chromium) drive(t *testing.T) *tab {
	t.Helper()
	profile := c.start(t, "--hide-scrollbars", "--remote-debugging-port=0", "--remote-allow-origins=http://127.0.0.1", "about:blank")
	b := &tab{TB: t}
	var address string
	b.await("the browser listens", func() bool {
		select {
		case <-c.exited:
			t.Fatalf("the browser ended: %s", &c.stderr)
		case <-time.After(10 * time.Millisecond): // the file has no event
		}
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		port, path, found := strings.Cut(strings.TrimSpace(string(text)), "\n")
		address = "127.0.0.1:" + port + path
		return err == nil && found
	})
	ws, err := websocket.Dial("ws://"+address, "", "http://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	b.ws = ws
	b.ws.MaxPayloadBytes = 64 << 20
	t.Cleanup(func() { _ = b.ws.Close() }) // the browser is killed
	var made struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// await waits until something is true.
func (b *tab) await(what string, is func() bool) {
	b.Helper()
	for late := time.Now().Add(patience); !is(); {
		if time.Now().After(late) {
			b.Fatalf("after %s it was not true yet that %s", patience, what)
		}
	}
}

// call sends a command, which succeeds, and decodes its result.
func (b *tab) call(method string, params, result any) {
	b.Helper()
	if err := b.try(method, params, result); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}

// try sends a command. It returns what the browser has against it.
func (b *tab) try(method string, params, result any) error {
	b.Helper()
	b.last++
	if err := b.ws.SetDeadline(time.Now().Add(patience)); err != nil {
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

// eval runs a script in the page and returns its value as JSON.
func (b *tab) eval(script string) string {
	b.Helper()
	value, err := b.run(script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return value
}

// run is eval for scripts that may fail.
func (b *tab) run(script string) (string, error) {
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

// runFirst has the pages that open from now on run a script before their own.
func (b *tab) runFirst(script string) {
	b.Helper()
	b.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}

// until waits until a script is true. It fails as long as a page is under way.
func (b *tab) until(what, script string) {
	b.Helper()
	for late := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) { // pages tell no test what they have drawn
		if value, err := b.run(script); err == nil && value == "true" {
			return
		}
		if time.Now().After(late) {
			b.Fatalf("after %s it was not true yet that %s: the page (%s) shows\n%s\nand its log has\n%.2000s", patience, what,
				b.eval("`${location.href}, ${document.readyState}, ${document.visibilityState}, ${performance.getEntriesByType('resource').length} files`"),
				b.eval("document.body?.innerText ?? null"), strings.Join(b.logs, "\n"))
		}
	}
}

// sees waits for a text on the page.
func (b *tab) sees(text string) {
	b.Helper()
	b.until("the page shows "+text, fmt.Sprintf("document.body.innerText.includes(%s)", quoted(text)))
}

// open goes to an address, and waits until what the page showed before is gone: the
// console draws a view of the same page only after the address has changed.
func (b *tab) open(url string) {
	b.Helper()
	b.eval(fmt.Sprintf(`{ const view = document.querySelector("main > *"); if (view && location.href !== %s) view.dataset.left = "" }`, quoted(url)))
	var gone struct{ ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &gone)
	if gone.ErrorText != "" {
		b.Fatalf("the browser does not go to %s: %s", url, gone.ErrorText)
	}
	b.until("the view before is gone", `document.querySelector("[data-left]") === null`)
}

// click presses the first button or link with this text.
func (b *tab) click(text string) {
	b.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] button, dialog[open] a")].concat([...document.querySelectorAll("button, a")]).find((e) => e.innerText.trim() === %s && !e.disabled)`, quoted(text))
	b.until("there is a button "+text, "("+found+") !== undefined")
	b.eval("void (" + found + ").click()")
}

// enter puts a text into the input with this name.
func (b *tab) enter(name, text string) {
	b.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] [name=%[1]s]"), ...document.querySelectorAll("[name=%[1]s]")][0]`, name)
	b.until("there is an input "+name, found+" !== undefined")
	b.eval(fmt.Sprintf(`{ const e = %s; e.focus(); e.value = %s; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})) }`, found, quoted(text)))
}

func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have a form
	}
	return string(q)
}

// picture writes what the page shows to a file.
func (b *tab) picture(file string, width, height int, scheme string) {
	b.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	var shot struct{ Data string }
	form := map[string]any{"format": "png"}
	if filepath.Ext(file) == ".webp" {
		form = map[string]any{"format": "webp", "quality": 80}
	}
	b.call("Page.captureScreenshot", form, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.Fatal(err)
	}
}
