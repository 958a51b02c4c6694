package console_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// script would change the title of a page that took it for markup or ran it.
const script = `"'><img src=x onerror="document.title='owned'"><script>document.title='owned'</script><svg onload="document.title='owned'">`

// What an item holds stays text, however it is made, and the page goes on to work.
func TestConsoleHostileItems(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	var all []string // headers
	for i := range 300 {
		all = append(all, fmt.Sprintf("X-%03d", i), script)
	}
	controls := make([]byte, 256)
	for i := range controls {
		controls[i] = byte(i)
	}
	items := []struct {
		name, payload string
		headers       []string
		sees          []string // once it is shown
	}{
		{"a script", script, []string{"X-" + strings.Repeat("long", 2000), script, "X-Script", script}, []string{script, "and 7,874 more"}},
		{"a script as JSON", `{"` + strings.ReplaceAll(script, `"`, `\"`) + `":["</script>"]}`, nil, []string{`"</script>"`}},
		{"a key", "x", []string{"PQ-Key", "\u202e<b>" + strings.Repeat("\u2066", 30), "PQ-Unique", script}, []string{"‹U+202E›<b>‹U+2066›"}},
		{"many headers", "x", all, []string{"X-099", "And 200 more."}},
		{"a long header", "x", []string{"X-Long", strings.Repeat("<i>", 20<<10)}, []string{"more", "Payload, 1 B"}},
		{"megabytes", strings.Repeat("<b>", 300<<10), nil, []string{"Payload, 900 KiB", "Show all 900 KiB", "too large to be live"}},
		{"megabytes of controls", strings.Repeat("\x01", 900<<10), nil, []string{"Payload, 900 KiB", "␁␁␁"}},
		{"deep JSON", strings.Repeat("[", 400<<10) + strings.Repeat("]", 400<<10), nil, []string{"Payload, 800 KiB"}},
		{"JSON of some depth", strings.Repeat(`{"a":[`, 3000) + strings.Repeat("]}", 3000), nil, []string{`"a": [`}},
		{"control characters", "a\x00b\x1b[31mc\x7fd\u0085e\u2028f\ufeffg", []string{"X-Esc", "\x1b]0;owned\x07"}, []string{"a␀b␛[31mc‹U+007F›d‹U+0085›e‹U+2028›f‹U+FEFF›g", "␛]0;owned␇"}},
		{"all bytes", string(controls), nil, []string{"00 01 02 03"}},
		{"text that turns", "gpj.\u202eexe\u2066\u2067\u2069\u061c\u200f\u200e", []string{"X-Name", "\u202ecod.exe"}, []string{"gpj.‹U+202E›exe‹U+2066›‹U+2067›‹U+2069›‹U+061C›‹U+200F›‹U+200E›", "‹U+202E›cod.exe"}},
		{"Arabic and Hebrew", "مرحبا שלום", []string{"X-Name", "שלום"}, []string{"مرحبا שלום"}},
		{"a prototype", `{"__proto__":{"x":1},"constructor":1,"toString":2}`, []string{"__proto__", "a", "constructor", "b", "hasOwnProperty", "c"}, []string{`"__proto__": {`, "hasOwnProperty"}},
		{"a link", "javascript:document.title='owned'", []string{"Location", "javascript:document.title='owned'"}, []string{"javascript:document.title"}},
	}
	unchanged := func(name string) {
		t.Helper()
		if title := b.Eval("document.title"); strings.Contains(title, "owned") {
			t.Errorf("%s ran: the title is %s", name, title)
		}
		if n := b.Eval(`document.querySelectorAll("main img, main script, main svg:not(figure > *), main i, main b, main [onload], main [onerror], main a[href^=javascript]").length`); n != "0" {
			t.Errorf("%s became %s elements", name, n)
		}
		if wide := b.Eval(`document.documentElement.scrollWidth > innerWidth + 1`); wide != "false" {
			t.Errorf("%s makes the page wider than its window", name)
		}
		b.Defects()
	}
	for i, item := range items {
		id := pqd.PushMsg(t, nc, fmt.Sprintf("pq.hostile.push.%d", i), item.payload, item.headers...)
		b.Open(p.HTTP + "/#/q/hostile/i/" + id)
		b.Until(item.name+" is shown", fmt.Sprintf(`document.querySelector("h1")?.innerText === %q && document.querySelector("main").innerText.includes("Payload,")`, id))
		for _, text := range item.sees {
			b.Sees(text)
		}
		unchanged(item.name)
		if len(item.headers) > 0 && item.name != "a key" { // whose headers are the bridge's
			b.Until("the values of headers have room", `[...document.querySelectorAll("td.wide")].every((c) => c.getBoundingClientRect().width > 200 && c.getBoundingClientRect().right <= innerWidth)`)
		}
		for _, form := range []string{"Hex", "Text"} {
			b.Click(form)
			unchanged(item.name + " as " + form)
		}
	}
	b.Open(p.HTTP + "/#/q/hostile")
	b.Until("all are listed", fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(items)))
	unchanged("a list")
	b.Until("keys and headers have room", `[...document.querySelectorAll("tbody td.key, tbody td.wide")].every((c) => c.getBoundingClientRect().width > 100)`)
	b.Enter("header", "X-Script")
	b.Click("Search")
	b.Sees("1 found in")
	unchanged("a search")

	// A dead letter with a hostile reason.
	id := pqd.PushMsg(t, nc, "pq.hostile.push.-5", "x")
	if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/hostile/pop?lease=1h", ""); code != 200 || !strings.Contains(body, id) {
		t.Fatal(code, body)
	} else {
		ack := body[strings.Index(body, `"ack":"`)+7:]
		if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/hostile/settle?ack="+ack[:strings.Index(ack, `"`)], "+TERM "+script+"\u202e"); code != 200 {
			t.Fatal(code, body)
		}
	}
	b.Open(p.HTTP + "/#/q/hostile?tab=dead")
	b.Sees("document.title='owned'")
	unchanged("a reason")
	b.Eval(`document.querySelector("tbody a").click()`)
	b.Sees("From queue")
	unchanged("a reason of an item")
	p.Stop(t)
}

// A page of another site gets nothing: no answer that it may read, and no request with an effect. The browser itself sends
// what it would send for a hostile page. A page of another port of this machine is one, too.
func TestConsoleOtherSite(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t) // which may change queues
	pqd.Push(t, nc, "jobs", 1, "x")
	page := `<!doctype html><title>elsewhere</title><p>hostile`
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) }))
	defer near.Close()
	for _, from := range []string{
		"data:text/html;base64," + base64.StdEncoding.EncodeToString([]byte(page)), near.URL, strings.Replace(near.URL, "127.0.0.1", "localhost", 1),
	} {
		otherSite(t, b, from, p.HTTP)
		if _, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs"); !strings.Contains(body, `"ready":1`) {
			t.Errorf("a page of another site changed something: %s", body)
		}
	}
	p.Stop(t)
}

// otherSite sends what the page at an address could, and expects that nothing comes of it.
func otherSite(t *testing.T, b *chromium.Tab, from, console string) {
	t.Helper()
	b.Open(from)
	b.Sees("hostile")
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/queues"}, {"GET", "/v1/watch?path=/v1/queues"}, {"POST", "/v1/queues/jobs/purge"}, {"POST", "/v1/queues/jobs/pop"}, {"DELETE", "/v1/queues/jobs"}, {"PATCH", "/v1/queues/jobs/config"},
	} {
		for _, mode := range []string{"cors", "no-cors"} {
			if mode == "no-cors" && c.method != "GET" && c.method != "POST" {
				continue // no browser sends it
			}
			got := b.Eval(fmt.Sprintf(`fetch(%q, {method: %q, mode: %q}).then((a) => a.text().then((t) => a.type + " " + t), (e) => "refused")`, console+c.path, c.method, mode))
			if got != `"refused"` && got != `"opaque "` {
				t.Errorf("%s %s, %s: a page of %s reads %s", c.method, c.path, mode, from, got)
			}
		}
	}
	b.Eval(fmt.Sprintf(`{ const f = document.createElement("form"); f.method = "post"; f.action = %q; f.target = "_self"; document.body.append(f); f.submit() }`, console+"/v1/queues/jobs/purge"))
	b.Sees("a page of another site")
}
