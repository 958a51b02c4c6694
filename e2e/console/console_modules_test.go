package console_test

import (
	"fmt"
	"testing"
)

// Numbers, times, bytes and texts are shown as people write them.
func TestConsoleFormats(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=read")
	b.Open(p.HTTP + "/#/nowhere")
	b.Sees("There is no such view")
	b.Module("format", `(f) => [0, undefined, 0.004, 0.006, 3.14159, 9.994, 12.4, 1234.5].map(f.rate)`, "0\n0\n0\n0.01\n3.14\n9.99\n12\n1,235")
	b.Module("format", `(f) => [0, 0.0001, 0.25, 0.9994, 1, 119.9, 120, 7199, 7200, 172799, 172800].map(f.span)`,
		"0 s\n0 s\n250 ms\n999 ms\n1 s\n119 s\n2 min\n119 min\n2 h\n47 h\n2 d")
	b.Module("format", `(f) => [0, 1023, 1024, 10239, 10240, 1048576, 3 * 2**30, 5000 * 2**30].map(f.bytes)`, "0 B\n1023 B\n1.0 KiB\n10.0 KiB\n10 KiB\n1.0 MiB\n3.0 GiB\n5000 GiB")
	b.Module("format", `(f) => ["1h0m0s", "1m0s", "100/1m0s", "1h30m0s", "1m30s", "12h0m0s", "10s", "500ms"].map(f.short)`, "1h\n1m\n100/1m\n1h30m\n1m30s\n12h\n10s\n500ms")
	b.Module("format", `(f) => [f.some(0, "item"), f.some(1, "item"), f.some(1000, "item"), f.cut("abcdef", 6), f.cut("abcdefg", 6)]`,
		"0 items\n1 item\n1,000 items\nabcdef\nabcdef… and 1 more")
	b.Module("format", `(f) => [-90, 90].map((s) => f.fromNow(new Date(Date.now() + s * 1000 + 500)))`, "89 s ago\nin 90 s")
	b.Module("format", `(f) => [f.hex(Uint8Array.from({ length: 18 }, (_, i) => i * 8 + 1))]`,
		"00000000  01 09 11 19 21 29 31 39 41 49 51 59 61 69 71 79  ....!)19AIQYaiqy\n00000010  81 89"+"                                            ..")
	b.Module("format", `(f) => f.headersOf({ headers: { A: ["1", "2"], B: [""] }, headers_base64: { C: ["/w==", "/g=="] } }).map(([n, v]) => n + "=" + v)`,
		"A=1\nA=2\nB=\nC=base64 /w==\nC=base64 /g==")
	b.Module("format", `(f) => ['{"a":[],"b":{},"c":[1,{"d":"\\\\\\""}]}', '[]', '1'].map(f.indent)`,
		"{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"\\\\\\\"\"\n    }\n  ]\n}\n[]\n1")
	b.Module("format", `(f) => ["👩‍👩‍👧", "❤️‍🔥 👋🏽‍👋", "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}", "a\u200db", "👩\u200d", "\u200d👩", "👩\u200d\u200d👧", "\u{1f3f4}\u{e0061}\u{e007f}"].map(f.visible)`,
		"👩‍👩‍👧\n❤️‍🔥 👋🏽‍👋\n\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f\na‹U+200D›b\n👩‹U+200D›\n‹U+200D›👩\n👩‹U+200D›‹U+200D›👧\n\U0001f3f4‹U+E0061›‹U+E007F›")
	b.Module("format", `(f) => [["YSBiCiBj", false], ["w6Q=", true], ["w6TD", true], ["/w==", false], ["", false], ["4oCu", false]].map(([text, more]) => f.beginning(text, more))`,
		"a b c\nä…\nä…\nhex ff\n\n‹U+202E›")
	b.Module("columns", `({ columns, sorted }) => {
		const queue = (queue, n) => ({ queue, ready: n, leased: n, delayed: n, dead: n, oldest: n, waiting: n, bytes: n, rates: { push: n, pop: n } });
		return columns.map((by) => by.key + " " + sorted([queue("d", 1), queue("a", 1), queue("b", 9)], by).map((q) => q.queue).join(""));
	}`, "ready bad\nleased bad\ndelayed bad\ndead bad\noldest bad\nin bad\nout bad\nwaiting bad\nbytes bad")
	b.Defects()
	p.Stop(t)
}

// A stream that ends is opened again, after ever longer pauses, unless it was refused for
// good; and what it says arrives, however the network cuts it.
func TestConsoleStreams(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=read")
	b.Open(p.HTTP + "/#/nowhere")
	b.Sees("There is no such view")
	const scripted = `async ({ watch, call }) => {
		const all = [];
		let end;
		const refusal = (status, description) => new Response(JSON.stringify({ error: { description } }), { status });
		const stream = (...parts) => new Response(new ReadableStream({ start(to) {
			for (const part of parts) to.enqueue(new TextEncoder().encode(part));
			end = () => to.close();
		} }));
		const lost = () => { throw new TypeError("lost"); };
		const answers = [lost, lost, lost, lost, lost, lost, lost,
			() => refusal(429, "busy"), () => refusal(503, "away"),
			() => stream('data: {"path":"a","sta', 'tus":200,"body":1}\n\ndata: {"path":"b","status":404,"body":2}\n\n', ':\n\n', 'data: {"path":"/v1/large","status":413}\n\n'),
			() => refusal(404, "it has gone"),
			lost, () => refusal(403, "no"), () => refusal(500, "never asked")];
		const { fetch: send, setTimeout: later } = window;
		window.fetch = async () => answers.shift()();
		window.setTimeout = (what, ms) => {
			all.push(ms >= 40000 ? "listens" : "waits " + ms);
			return later(what, ms >= 40000 ? ms : 0);
		};
		await watch(["a"], new AbortController().signal, (at, status, answer) => {
			all.push([at, status, answer?.error?.description ?? answer].join(" "));
			if (at === "/v1/large") end();
		}, (live, why) => all.push((live ? "live" : "not live") + (why ? ", " + why.message : "")));
		window.fetch = async () => new Response("<b>bad gateway", { status: 502 });
		await call("GET", "/v1/queues").catch((e) => all.push(e.status + " " + e.message));
		Object.assign(window, { fetch: send, setTimeout: later });
		all.push(answers.length);
		return all;
	}`
	want := ""
	for _, pause := range []int{250, 500, 1000, 2000, 4000, 5000, 5000} {
		want += fmt.Sprintf("listens\nnot live\nwaits %d\n", pause)
	}
	want += "listens\nnot live, busy\nwaits 5000\n" + "listens\nnot live, away\nwaits 5000\n" +
		"listens\nlive\nlistens\nlistens\na 200 1\nb 404 2\nlistens\nlistens\nlistens\n" + // each part of a stream is a sign of life, and so is the request for what is large
		"/v1/large 404 it has gone\nnot live\nwaits 250\nlistens\nnot live\nwaits 500\nlistens\nnot live, no\n" +
		"listens\n502 <b>bad gateway\n1"
	b.Module("gateway", scripted, want)
	b.Defects()
	p.Stop(t)
}
