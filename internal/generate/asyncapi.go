package main

import (
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// asyncAPI describes all operations and events as AsyncAPI 3 does, from the side of pqd: it receives requests, answers them to their reply
// subjects, and sends events. It refers to schemas in files of their own, unless it is to have them itself.
func asyncAPI(ts *types, whole bool) ([]byte, error) {
	ref := inFolder
	if whole {
		ref = inComponents
	}
	a := &asyncapi{ref: ref, messages: map[string]object{"error": errorMessage(ref), "nothing": {{"summary", "An empty message"}, {"payload", object{{"type", "string"}, {"maxLength", 0}}}, {"contentType", "text/plain"}}}}
	var operations object
	for i := range protocol.Ops {
		operations = append(operations, a.operation(&protocol.Ops[i])...)
	}
	for i := range protocol.Events {
		operations = append(operations, a.event(&protocol.Events[i]))
	}
	components := object{{"messages", a.messages}}
	if whole {
		schemas, err := ts.schemas(ref)
		if err != nil {
			return nil, err
		}
		components = append(components, member{"schemas", object(schemas)})
	}
	answers := object{{"error", toMessage("error")}}
	for _, name := range slices.Sorted(maps.Keys(a.answers)) {
		answers = append(answers, member{name, toMessage(name)})
	}
	a.channels = append(a.channels, member{"reply", object{{"address", nil}, {"description", "The reply subject of a request, in the inbox of the client."}, {"messages", answers}}})
	return indented(object{
		{"asyncapi", "3.0.0"},
		{"info", object{{"title", "pqbridge"}, {"version", "1"}, {"description", "Durable priority queues over NATS: requests, their answers, and events. docs/protocol.md is normative."}, {"license", object{{"name", "Apache 2.0"}}}}},
		{"defaultContentType", "application/json"},
		{"servers", object{{"local", object{{"host", "127.0.0.1:4222"}, {"protocol", "nats"}}}}},
		{"channels", a.channels},
		{"operations", operations},
		{"components", components},
	})
}

// errorMessage is an error of any request.
func errorMessage(ref func(string) string) object {
	return object{
		{"summary", "An error; some requests have it in the body, or an empty body"},
		{"headers", object{{"type", "object"}, {"properties", object{
			{"Status", object{{"type", "string"}}},
			{"Description", object{{"type", "string"}}},
			{"Nats-Service-Error-Code", object{{"type", "string"}, {"description", "the code"}}},
			{"Nats-Service-Error", object{{"type", "string"}, {"description", "a text"}}},
			{"PQ-Reason", object{{"type", "string"}, {"description", "the cause behind the code"}}},
		}}}},
		{"payload", object{{"$ref", ref("ErrorResponse")}}},
	}
}

type asyncapi struct {
	ref      func(string) string // to the schema of a type
	channels object              // by subject, in the order of their first use
	messages map[string]object   // by name
	answers  map[string]bool     // names of messages to reply subjects
}

func toMessage(name string) object { return object{{"$ref", "#/components/messages/" + name}} }

// operation is a request with its answer. A subject with an optional part makes two operations.
func (a *asyncapi) operation(o *protocol.Op) (all object) {
	forms := o.Subjects()
	if strings.HasSuffix(o.Subject, "<end>") {
		forms = []string{o.Subject}
	}
	for i, form := range forms {
		id := camel(o.Name)
		if i > 0 {
			id += "WithPriority"
		}
		asked, told := a.message(o.Body), a.message(o.Answer)
		channel := a.channel(id, form, asked)
		if a.answers == nil {
			a.answers = make(map[string]bool)
		}
		a.answers[told] = true
		reply := func(name string) object { return object{{"$ref", "#/channels/reply/messages/" + name}} }
		all = append(all, member{id, object{
			{"action", "receive"},
			{"channel", object{{"$ref", "#/channels/" + channel}}},
			{"summary", o.Doc},
			{"messages", []object{{{"$ref", "#/channels/" + channel + "/messages/" + asked}}}},
			{"reply", object{{"channel", object{{"$ref", "#/channels/reply"}}}, {"messages", []object{reply(told), reply("error")}}}},
			{"x-again", map[protocol.Again]string{protocol.Once: "once", protocol.Repeats: "repeats", protocol.Reads: "reads"}[o.Again]},
			{"x-roles", rolesOf(o.Right)},
			{"x-reasons", o.Reasons()},
		}})
	}
	return all
}

func (a *asyncapi) event(e *protocol.EventKind) member {
	id := "event" + exported(camel(strings.NewReplacer("_", " ", "-", " ", "<", "", ">", "").Replace(e.Type)))
	sent := a.message(e.Body)
	channel := a.channel(id, e.Subject(), sent)
	return member{id, object{
		{"action", "send"},
		{"channel", object{{"$ref", "#/channels/" + channel}}},
		{"summary", e.Doc},
		{"messages", []object{{{"$ref", "#/channels/" + channel + "/messages/" + sent}}}},
	}}
}

var parameter = regexp.MustCompile(`<(\w+)>`)

// parameters are the variable tokens of subjects.
var parameters = map[string]object{
	"queue":      {{"description", "the name of a queue"}},
	"priority":   {{"description", "an integer in decimal; low ones are urgent"}},
	"end":        {{"description", "the end of the queue: the most urgent item, or the least urgent one"}, {"enum", []string{"min", "max"}}},
	"connection": {{"description", "as the subject that came with the item has it"}},
	"token":      {{"description", "as the subject that came with the item has it"}},
	"id":         {{"description", "of an item"}},
	"key":        {{"description", "a key, with escapes"}},
	"holder":     {{"description", "of a lease: the first 8 bytes of the SHA-256 of what it calls itself, as 16 hex digits"}},
	"name":       {{"description", "of a schedule, a source or a link"}},
}

// channel returns the channel of a subject, with one more message. It is named after its first operation.
func (a *asyncapi) channel(id, subject, message string) string {
	address := "pq." + parameter.ReplaceAllString(subject, "{$1}")
	for _, c := range a.channels {
		messages := c.value.(object)[1].value.(map[string]object)
		if c.value.(object)[0].value == address {
			messages[message] = toMessage(message)
			return c.name
		}
	}
	channel := object{{"address", address}, {"messages", map[string]object{message: toMessage(message)}}}
	var in object
	for _, name := range parameter.FindAllStringSubmatch(subject, -1) {
		in = append(in, member{name[1], parameters[name[1]]})
	}
	if in != nil {
		channel = append(channel, member{"parameters", in})
	}
	a.channels = append(a.channels, member{id, channel})
	return id
}

// message returns the name of the message with a body.
func (a *asyncapi) message(body any) string {
	var name string
	var m object
	switch b := body.(type) {
	case nil:
		return "nothing"
	case protocol.Payload:
		name, m = "payload", object{{"summary", "What an item carries; headers say the rest"}, {"contentType", "application/octet-stream"}, {"payload", object{{"type", "string"}}}}
	case protocol.Word:
		name, m = "settlement", object{{"summary", "A word, and perhaps what belongs to it"}, {"contentType", "text/plain"}, {"payload", object{{"type", "string"}}}}
	case protocol.Change:
		t := reflect.TypeOf(b.Of)
		name, m = snake(t.Name())+"_change", object{{"payload", object{{"$ref", a.ref(t.Name() + "Change")}}}}
	default:
		t := reflect.TypeOf(b)
		name, m = snake(t.Name()), object{{"payload", object{{"$ref", a.ref(t.Name())}}}}
	}
	a.messages[name] = m
	return name
}

// rolesOf are the names of roles.
func rolesOf(set protocol.Roles) (names []string) {
	for i, name := range []string{"producer", "importer", "consumer", "taker", "requeuer", "viewer", "admin", "caller"} {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) != bits.OnesCount8(uint8(set)) {
		panic(fmt.Sprintf("roles %b: one has no name", set))
	}
	return names
}

func camel(words string) string {
	all := strings.Fields(words)
	for i := range all[1:] {
		all[i+1] = exported(all[i+1])
	}
	return strings.Join(all, "")
}
