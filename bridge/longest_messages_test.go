package bridge_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// mostBytes is how many bytes a message has room for beside its headers.
const mostBytes = 1<<20 - 2<<10

// message is one that a client sends.
type message struct {
	what          string
	subject, body string
	header        nats.Header
}

// often repeats a text up to a size.
func often(size int, text string) string { return strings.Repeat(text, max(0, size/len(text))) }

// counted repeats a text with a number in it up to a size.
func counted(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size-len(format)-8; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// worstBodies are bodies of a size that are the worst for a reader of JSON, of words, of lines or of frames.
func worstBodies(size int) map[string]string {
	depth := min(9_990, size/46) // encoding/json reads no more than 10,000
	name := strings.Repeat("n", size/depth-6)
	return map[string]string{
		"arrays":       often(size/2, "[") + often(size/2, "]"),
		"open arrays":  often(size, "["),
		"objects":      often(size, `{"a":`),
		"long path":    strings.Repeat(`{"`+name+`":`, depth) + "1" + strings.Repeat("}", depth),
		"empty ones":   `{"a":[{}` + often(size-16, ",{}") + "]}",
		"many fields":  `{"a":1` + counted(size-8, `,"a%d":1`) + "}",
		"escaped":      `{"a":1` + counted(size-8, `,"\u0061%d":1`) + "}",
		"same fields":  `{"limit":1` + often(size-16, `,"limit":1`) + "}",
		"long name":    `{"` + often(size-8, "a") + `":1}`,
		"long text":    `{"after":"` + often(size-16, "a") + `"}`,
		"escapes":      `{"reason":"` + often(size-16, `\u0001`) + `"}`,
		"digits":       `{"limit":` + often(size-16, "9") + "}",
		"broken":       `{"after":"` + often(size-16, "a"),
		"broken late":  `{"a":1` + counted(size-8, `,"a%d":1`) + ",}",
		"spaces":       often(size, " "),
		"line feeds":   often(size, "\n"),
		"empty frames": often(size, "0 0\n\n"),
		"zeros":        often(size, "\x00"),
		"no UTF-8":     often(size, "\xff"),
	}
}

// worstBodies are the same for each verb.
func (l *longest) worstBodies(size int) map[string]string {
	if l.bodies[size] == nil {
		l.bodies[size] = worstBodies(size)
	}
	return l.bodies[size]
}

// blocks are the largest headers of a message.
func blocks() map[string]nats.Header {
	all := map[string]nats.Header{"one header": {"A": {often(protocol.MaxHeaderBytes-64, "a")}}, "the same header": {}, "many headers": {}, "many of ours": {}, "one of ours": {}}
	for i := range protocol.MaxHeaderLines {
		all["the same header"].Add("A", often(50, "a"))
		all["many headers"].Set(fmt.Sprint("A", i), often(50, "a"))
		all["many of ours"].Set(fmt.Sprint("PQ-A", i), often(50, "a"))
	}
	all["one of ours"].Set("PQ-"+often(30_000, "a"), often(30_000, "a"))
	return all
}

// constants are the texts of the constants of the package protocol in a file whose names begin alike.
func constants(t testing.TB, file, prefix string) (texts []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../protocol/"+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && strings.HasPrefix(spec.Names[0].Name, prefix) && len(spec.Values) == 1 {
			if value, is := spec.Values[0].(*ast.BasicLit); is {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text)
			}
		}
		return true
	})
	if len(texts) < 5 {
		t.Fatalf("%s has the constants %q", file, texts)
	}
	return texts
}

// aLease stands in a body for the ack subject of an item that is leased, another one each time that the message is sent.
const aLease = "<lease>"

// lines are the settlements of a bundle.
func lines(what string, n int, line string) message {
	return message{"bundle of " + what, "pq.jobs.ack.bundle.settle", strings.Repeat(line, n), h("PQ-Bundle", strconv.Itoa(n))}
}

// heavyFrames are frames with the longest and with the shortest headers.
func heavyFrames() (heavy, light string) {
	lines := strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(&lines, "A%d: %s\n", i, often(50, "a"))
	}
	return string(protocol.AppendFrame(nil, []byte(lines.String()), nil)), string(protocol.AppendFrame(nil, []byte(strings.Repeat("A:b\n", 240)), nil))
}

// own are the largest messages that each verb takes. One that is missing here fails the test: what it takes has to be
// thought of.
var own = map[subjects.Verb]func(l *longest) []message{
	subjects.Push: func(l *longest) (all []message) {
		heavy, light := heavyFrames()
		bundle := func(what, frame string, n int) {
			for each, header := range map[string]nats.Header{"": {}, " item by item": h("PQ-Each", "true")} {
				header.Set("PQ-Bundle", strconv.Itoa(n))
				all = append(all, message{what + each, "pq.jobs.push", strings.Repeat(frame, n), header})
			}
		}
		bundle("bundle of 1000", string(protocol.AppendFrame(nil, nil, make([]byte, 1000))), 1000)
		bundle("bundle of nothing", "0 0\n\n", 1000)
		bundle("bundle with long headers", heavy, mostBytes/len(heavy))
		bundle("bundle with short headers", light, min(1000, mostBytes/len(light)))
		bundle("bundle with keys", string(protocol.AppendFrame(nil, []byte("PQ-Key: "+often(128, "k")+"\nPQ-Unique-Until: leased\nPQ-Unique: "+often(700, "u")+"\nPQ-On-Conflict: keep\n"), nil)), 1000)
		bundle("bundle of wrong items", string(protocol.AppendFrame(nil, []byte("PQ-"+often(900, "a")+":b\n"), nil)), 1000)
		return append(all, message{"all that an item may have", "pq.jobs.push.-9223372036854775808", often(mostBytes-70_000, "a"), h(append(longestHeaders(), "A", often(50_000, "a"))...)})
	},
	subjects.Import: func(l *longest) []message {
		attempts := "[" + strings.TrimSuffix(often(8000, `{"n":1,"outcome":"nak","end":"2026-01-02T03:04:05Z"},`), ",") + "]"
		return []message{
			{"attempts", "pq.jobs.import", "", h("PQ-Unique", "attempts", "PQ-Attempts", attempts)},
			{"deep attempts", "pq.jobs.import", "", h("PQ-Unique", "attempts", "PQ-Attempts", often(8000, "["))},
			{"long id", "pq.jobs.import", "", h("PQ-Id", often(60_000, "F"))},
			{"all that an item may have", "pq.jobs.import", often(mostBytes-70_000, "a"), h(
				"PQ-Key", often(128, "k"), "PQ-Unique", often(1024, "u"), "PQ-Dead-Reason", often(512, "r"), "PQ-Origin-Id", often(512, "i"), "PQ-Origin", often(64, "q"), "PQ-Dead-At", "2026-01-02T03:04:05Z", "A", often(50_000, "a"))},
		}
	},
	subjects.PopMin: func(l *longest) []message {
		return []message{
			{"longest id", "pq.jobs.pop.min", `{"msg_id":"` + often(6144, `\u0061`) + `","bundle":1000,"lease":1000000000}`, nil},
			{"bundle", "pq.jobs.pop.min", "", h("PQ-Bundle", "1000", "PQ-Lease", "1h", "PQ-Holder", often(128, "h"), "Nats-Msg-Id", often(1024, "i"))},
			{"largest batch", "pq.jobs.pop.min", often(8192, "9"), nil},
		}
	},
	subjects.PopMax: nil,
	subjects.PeekMin: func(l *longest) []message {
		return []message{{"bundle", "pq.jobs.peek.min", "1000", h("PQ-Wait", "0s")}}
	},
	subjects.PeekMax: nil,
	subjects.Ack: func(l *longest) (all []message) {
		for _, word := range append(constants(l, "settlement.go", "Settle"), "", "+TRM") {
			for what, body := range l.worstBodies(8<<10 - 8) {
				all = append(all, message{word + " with " + what, "", word + " " + body, nil})
			}
			for what, body := range map[string]string{"deep": often(mostBytes, `{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":`), "much": often(mostBytes, "a")} {
				all = append(all, message{word + " with " + what, "", word + " " + body, nil})
			}
		}
		all = append(all, message{"-NAK with the longest reason", "", `-NAK {"reason":"` + often(6144, `\u0001`) + `"}`, nil})
		for what, words := range map[string]string{
			"+ACK": "+ACK", "+WPI": "+WPI", "nothing": "", "+TERM": "+TERM " + often(800, "r"), "-NAK": `-NAK {"delay":1000,"reason":"` + often(700, "r") + `"}`,
			"deep -NAK": `-NAK ` + often(800, `{"a":`), "flat -NAK": `-NAK {"a":1` + counted(800, `,"a%d":1`) + "}",
		} {
			all = append(all, lines(what, 1000, aLease+" "+words+"\n"))
		}
		for what, line := range map[string]string{"short lines": "a\n", "long lines": often(1000, "a") + "\n", "foreign leases": "pq.other.ack.a.b +ACK\n", "bad tokens": "pq.jobs.ack.a." + often(900, "A") + " +ACK\n"} {
			all = append(all, lines(what, 1000, line))
		}
		long := lines("one long line and others", 100, aLease+" +ACK\n")
		long.body = strings.TrimSuffix(long.body, "\n") + often(180_000, "a")
		all = append(all, long, lines("too long lines", 100, often(10_000, "a")+"\n"))
		heavy, light := heavyFrames()
		for what, frame := range map[string]string{
			"frames with long headers": heavy, "frames with short headers": light, "frames of nothing": "0 0\n\n",
			"frames with bad tokens":    string(protocol.AppendFrame(nil, []byte("PQ-Ack: pq.jobs.ack.a."+often(900, "A")+"\n"), []byte("+ACK "))),
			"frames with wrong headers": string(protocol.AppendFrame(nil, []byte("PQ-"+often(900, "a")+":b\n"), nil)),
			"one frame":                 string(protocol.AppendFrame(nil, []byte("PQ-Ack: pq.jobs.ack.a.A\n"), make([]byte, mostBytes-100))),
		} {
			m := lines(what, min(1000, mostBytes/len(frame)), frame)
			m.header.Set("PQ-Frames", "true")
			all = append(all, m)
		}
		return all
	},
	subjects.Info: nil,
	subjects.List: func(l *longest) []message {
		return []message{
			{"longest fields", "pq.jobs.list", `{"state":"leased","limit":1000,"min":-9223372036854775808,"max":9223372036854775807,"attempts":true,"preview":1024,"holder":"` + often(128*6, `\u0068`) + `"}`, nil},
			{"longest cursor", "pq.jobs.list", `{"after":"` + often(8000, "F") + `"}`, nil},
		}
	},
	subjects.Get:    nil,
	subjects.Result: nil,
	subjects.Cancel: func(l *longest) []message {
		return []message{{"longest reason", "pq.jobs.cancel.FQEVARUB", `{"leased":false,"reason":"` + often(6144, `\u0001`) + `"}`, nil}}
	},
	subjects.Remove:  nil,
	subjects.Move:    nil,
	subjects.Requeue: nil,
	subjects.Revoke: func(l *longest) []message {
		return []message{{"longest reason", "pq.jobs.revoke.FQEVARUB", `{"fence":1,"delay":"87600h","reason":"` + often(6144, `\u0001`) + `"}`, nil}}
	},
	subjects.Keys: func(l *longest) []message {
		return []message{{"longest key", "pq.jobs.keys", `{"after":"` + often(128*6, `\u006b`) + `"}`, nil}}
	},
	subjects.Key: func(l *longest) []message {
		return []message{{"longest key", "pq.jobs.key." + often(384, "%C3%A9"), "", nil}}
	},
	subjects.Schedules: nil,
	subjects.Schedule:  schedules("pq.jobs.schedule.s"),
	subjects.Sources:   nil,
	subjects.Links:     nil,
	subjects.Link: func(l *longest) []message {
		return []message{{"longest fields", "pq.jobs.link.l", `{"done":7,"max":1000,"accept":true,"taker":"` + often(3000, "t") + `","batch":"` + often(3000, "b") + `"}`, h("PQ-Wait", "1ms")}}
	},
	subjects.AdminConfig: func(l *longest) (all []message) {
		names := strings.TrimSuffix(often(4096, "q,"), ",")
		backoff := "[" + strings.TrimSuffix(strings.Repeat(`"87600h0m0s",`, 32), ",") + "]"
		borders := strings.TrimSuffix(counted(1300, "%d00000000000000000,"), ",")
		largest := `{"dead_letters_from":"` + names + `","hand_over":"` + names + `","backoff":` + backoff + `,"fair":"` + borders + `","ties":"oldest"}`
		escaped := strings.NewReplacer("q", `\u0071`, ",q", `\u002c\u0071`).Replace(names)
		return []message{
			{"largest", "pq.config.admin.config", largest, nil},
			{"escaped", "pq.config.admin.config", `{"dead_letters_from":"` + escaped + `","hand_over":"` + escaped + `"}`, nil},
			{"borders", "pq.config.admin.config", `{"fair":"` + often(60_000, "1,") + `"}`, nil},
			{"delays", "pq.config.admin.config", `{"backoff":["1s"` + often(60_000, `,"1s"`) + `]}`, nil},
			{"unfit delays", "pq.config.admin.config", `{"backoff":[{}` + often(60_000, `,{}`) + `]}`, nil},
		}
	},
	subjects.AdminPurge:   nil,
	subjects.AdminPause:   nil,
	subjects.AdminResume:  nil,
	subjects.AdminDelete:  nil,
	subjects.AdminRemove:  filters("pq.jobs.admin.remove", ""),
	subjects.AdminMove:    filters("pq.jobs.admin.move", `"priority":5,`),
	subjects.AdminRevoke:  filters("pq.jobs.admin.revoke", `"reason":"r",`),
	subjects.AdminRequeue: filters("pq.jobs.admin.requeue", `"to":"jobs",`),
	subjects.AdminKey: func(l *longest) []message {
		return []message{{"longest key", "pq.jobs.admin.key." + often(384, "%C3%A9"), `{"limit":1000,"rate":"1000000/24h","weight":1000}`, nil}}
	},
	subjects.AdminSchedule:       schedules("pq.jobs.admin.schedule.s"),
	subjects.AdminSchedulePause:  nil,
	subjects.AdminScheduleResume: nil,
	subjects.AdminScheduleDelete: nil,
	subjects.AdminScheduleRun: func(l *longest) []message {
		l.ask("pq.jobs.admin.schedule.large", `{"spec":"@yearly","overlap":"allow","item":{"payload":"`+often(60_000, "a")+`"}}`)
		return []message{{"largest item", "pq.jobs.admin.schedule.large.run", "", h("Nats-Msg-Id", often(1024, "i"))}}
	},
	subjects.AdminSource: func(l *longest) (all []message) {
		filter := "[" + strings.TrimSuffix(counted(3600, `"%d.`+often(240, "f")+`",`), ",") + "]"
		object := `{"remote":"hub","stream":"` + often(255, "S") + `","filter":` + filter + `,"map":`
		return []message{
			{"largest", "pq.jobs.admin.source.s", object + `{"key":{"header":"` + often(2000, "h") + `","default":"` + often(2000, "d") + `"}}}`, nil},
			{"many mapped", "pq.jobs.admin.source.s", object + `{"a":1` + counted(50_000, `,"a%d":{"token":1}`) + "}}", nil},
			{"unfit mapped", "pq.jobs.admin.source.s", object + `{"key":[` + often(50_000, "[],") + "1]}}", nil},
			{"unfit start", "pq.jobs.admin.source.s", `{"remote":"hub","start":[` + often(60_000, "[],") + "1]}", nil},
			{"many filters", "pq.jobs.admin.source.s", `{"remote":"hub","stream":"S","filter":["a"` + often(60_000, `,"a"`) + "]}", nil},
		}
	},
	subjects.AdminSourcePause:  nil,
	subjects.AdminSourceResume: nil,
	subjects.AdminSourceDelete: nil,
	subjects.AdminLink: func(l *longest) []message {
		return []message{{"longest name", "pq.jobs.admin.link.l", `{"to":"` + often(60_000, "t") + `"}`, nil}}
	},
	subjects.AdminLinkPause:  nil,
	subjects.AdminLinkResume: nil,
	subjects.AdminLinkDelete: nil,
	subjects.Event:           nil,
	subjects.SysList: func(l *longest) []message {
		return []message{{"longest fields", "pq._sys.list", `{"limit":1000,"after":"` + often(3000, "q") + `","prefix":"` + often(3000, "q") + `"}`, nil}}
	},
	subjects.SysInfo:            func(l *longest) []message { return []message{{"history", "pq._sys.info", `{"history":true}`, nil}} },
	subjects.SysClusterStatus:   nil,
	subjects.SysClusterStepDown: nil,
	subjects.SysClusterReplace:  nil,
}

// schedules are the largest schedules, made or looked at.
func schedules(subject string) func(l *longest) []message {
	return func(l *longest) []message {
		headers := strings.TrimPrefix(counted(55_000, `,"A%d":"`+often(40, "a")+`"`), ",")
		return []message{
			{"escaped payload", subject, `{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, protocol.MaxSchedulePayload) + `"}}`, nil},
			{"payload in base64", subject, `{"spec":"@daily","item":{"payload_base64":"` + strings.Repeat("AAAA", protocol.MaxSchedulePayload/3) + `"}}`, nil},
			{"headers", subject, `{"spec":"@daily","item":{"headers":{` + headers + `}}}`, nil},
			{"one header", subject, `{"spec":"@daily","item":{"headers":{"A":["a"` + often(4*990, `,"a"`) + `]}}}`, nil},
			{"many values", subject, `{"spec":"@daily","item":{"headers":{"A":["a"` + often(60_000, `,"a"`) + `]}}}`, nil},
			{"long spec", subject, `{"spec":"0` + often(300_000, ",0") + ` * * * *"}`, nil},
			{"steps", subject, `{"spec":"0` + often(240, ",0/1") + ` * * * *"}`, nil},
			{"fields beside", subject, `{"spec":"@daily"` + counted(63_000, `,"a%d":1`) + `,"item":{"payload":"` + often(60_000, "a") + `"}}`, nil},
		}
	}
}

// filters are the largest filters of bulk operations.
func filters(subject, also string) func(l *longest) []message {
	return func(l *longest) []message {
		for range 3 { // whose headers all fit
			l.askMsg(&nats.Msg{Subject: "pq.jobs.push", Header: blocks()["many headers"]})
		}
		headers := strings.TrimPrefix(counted(7000, `,"A%d":"*"`), ",")
		return []message{
			{"headers", subject, `{` + also + `"dry_run":true,"where":{"header":{` + headers + `}}}`, nil},
			{"long texts", subject, `{` + also + `"dry_run":true,"where":{"reason":"` + often(3000, "r") + `*","origin":"` + often(3000, "o") + `*"}}`, nil},
			{"long cursor", subject, `{` + also + `"all":true,"after":"` + often(7000, "A") + `"}`, nil},
		}
	}
}

// readsHeaders are the verbs that have headers of their own.
var readsHeaders = map[subjects.Verb]bool{subjects.Push: true, subjects.Import: true, subjects.PopMin: true,
	subjects.PeekMin: true, subjects.Ack: true, subjects.Link: true, subjects.AdminScheduleRun: true}

// messages are the messages to try with a verb: its own, and each body, header block and subject that no verb expects.
func (l *longest) messages(v subjects.Verb, subject string) []message {
	l.Helper()
	var all []message
	if of := own[v]; of != nil {
		all = of(l)
	}
	for what, body := range l.worstBodies(mostBytes) {
		if !nightly.Runs() && own[v] == nil && what != "long path" && what != "many fields" {
			continue // they are refused for their size, as elsewhere
		}
		all = append(all, message{what, subject, body, nil})
	}
	for what, body := range l.worstBodies(protocol.MaxRequestBody) {
		all = append(all, message{"8 KiB of " + what, subject, body, nil})
	}
	if v == subjects.AdminConfig || v == subjects.AdminKey || v == subjects.AdminSource ||
		v == subjects.AdminLink || v == subjects.AdminSchedule || v == subjects.Schedule {
		for what, body := range l.worstBodies(protocol.MaxDefinition) {
			all = append(all, message{"64 KiB of " + what, subject, body, nil})
		}
	}
	for what, header := range blocks() {
		all = append(all, message{what, subject, "", header})
	}
	for _, name := range constants(l, "header.go", "Header") {
		if !nightly.Runs() && !readsHeaders[v] {
			continue // it refuses them all in the same way, as many of ours
		}
		all = append(all, message{name + " that is long", subject, "", nats.Header{name: {often(60_000, "1")}}})
		all = append(all, message{name + " again and again", subject, "", nats.Header{name: slices.Repeat([]string{"1"}, 900)}})
	}
	const line = 3800 // of the 4,096 bytes that a server takes
	for what, long := range map[string]string{"long token": subject + often(line, "a"), "many tokens": subject + often(line, ".a"), "long queue": "pq." + often(line, "q") + strings.TrimPrefix(subject, "pq.jobs")} {
		all = append(all, message{what, long, "", nil})
	}
	slices.SortFunc(all, func(a, b message) int { return strings.Compare(a.what, b.what) })
	return all
}

// longestHeaders are all headers that one push may have, each with its longest value.
func longestHeaders() (all []string) {
	for _, h := range protocol.PushHeaders {
		value := strings.Repeat("v", int(h.Most))
		switch h.Type.(type) {
		case int64:
			value = strconv.FormatInt(h.Most, 10)
		case protocol.Duration:
			value = "87600h"
		}
		if h.Words != nil {
			value = h.Words[0]
		}
		switch h.Name {
		case protocol.HeaderPriority: // the subject has it
		case protocol.HeaderNotBefore: // in place of a delay
		case protocol.HeaderSettle: // it needs a lease
		default:
			all = append(all, h.Name, value)
		}
	}
	return all
}
