package main

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// openAPI writes the description of the operations that the gateway passes on: those that nobody describes by hand, because
// there is nothing to say of them but what is in their rows and types.
type openAPI struct {
	types   *types
	written map[string]bool // by hand: methods with paths
	schemas map[reflect.Type]bool
}

// passedOn are the regions of openapi.yaml about operations that are passed on, and the schemas that no one else describes.
func passedOn(ts *types, ops []protocol.Op, text string) (paths, schemas string, err error) {
	o := &openAPI{types: ts, written: byHandIn(text), schemas: make(map[reflect.Type]bool)}
	var b strings.Builder
	var order []string
	at := make(map[string][]*protocol.Op) // by path
	for i := range ops {
		op := &ops[i]
		method, path, _ := strings.Cut(op.HTTP, " ")
		if path == "" || o.written[method+" "+path] {
			continue
		}
		if o.written[path] {
			return "", "", fmt.Errorf("operation %q: expected %s in openapi.yaml by hand, beside the other methods of its path", op.Name, op.HTTP)
		}
		if at[path] == nil {
			order = append(order, path)
		}
		at[path] = append(at[path], op)
	}
	for _, path := range order {
		fmt.Fprintf(&b, "  %s:\n", path)
		writePathParameters(&b, path)
		for _, op := range at[path] {
			if err := o.writeOperation(&b, op); err != nil {
				return "", "", fmt.Errorf("operation %q: %w", op.Name, err)
			}
		}
	}
	schemas, err = o.otherSchemas()
	return b.String(), schemas, err
}

var (
	pathLine   = regexp.MustCompile(`^  (/v1/\S+):\n$`)
	methodLine = regexp.MustCompile(`^    (get|post|patch|delete|put):\n$`)
)

// byHandIn are the paths, and the methods of paths, outside of the generated region.
func byHandIn(text string) map[string]bool {
	all, path, inside := make(map[string]bool), "", false
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "# generated: "+regionPassed):
			inside = true
		case strings.Contains(line, "# /generated"):
			inside = false
		case inside:
		case pathLine.MatchString(line):
			path = pathLine.FindStringSubmatch(line)[1]
			all[path] = true
		case methodLine.MatchString(line):
			all[strings.ToUpper(methodLine.FindStringSubmatch(line)[1])+" "+path] = true
		}
	}
	return all
}

// Regions of openapi.yaml.
const (
	regionPassed  = "operations that are passed on"
	regionSchemas = "schemas of their bodies"
)

var inPath = regexp.MustCompile(`\{(\w+)\}`)

func writePathParameters(b *strings.Builder, path string) {
	var all []string
	for _, m := range inPath.FindAllStringSubmatch(path, -1) {
		switch m[1] {
		case "queue", "id", "schedule", "source", "link":
			all = append(all, fmt.Sprintf(`{ $ref: "#/components/parameters/%s" }`, m[1]))
		case "key":
			all = append(all, "{ name: key, in: path, required: true, schema: { type: string, maxLength: 128 } }")
		default:
			all = append(all, fmt.Sprintf("{ name: %s, in: path, required: true, schema: { type: string } }", m[1]))
		}
	}
	if all != nil {
		fmt.Fprintf(b, "    parameters: [%s]\n", strings.Join(all, ", "))
	}
}

// otherNames are the operationIds that are not the names of operations.
var otherNames = map[string]string{"schedule times": "previewSchedule"}

func (o *openAPI) writeOperation(b *strings.Builder, op *protocol.Op) error {
	method, _, _ := strings.Cut(op.HTTP, " ")
	name := otherNames[op.Name]
	if name == "" {
		name = camel(op.Name)
	}
	fmt.Fprintf(b, "    %s:\n      operationId: %s\n      summary: %s\n", strings.ToLower(method), name, strconv.Quote(strings.TrimSuffix(op.Doc, ".")))
	var parameters []string
	if strings.Contains(op.Subject, ".<priority>") {
		parameters = append(parameters, `$ref: "#/components/parameters/priority"`)
	}
	if op.BodyOverHTTP() {
		fmt.Fprintf(b, "      requestBody: %s\n", o.body(op.Body))
	} else if op.Body != nil {
		t := reflect.TypeOf(op.Body)
		for f := range t.Fields() {
			p, err := o.parameter(t, f)
			if err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			parameters = append(parameters, p)
		}
	}
	if parameters != nil {
		b.WriteString("      parameters:\n")
	}
	for _, p := range parameters {
		fmt.Fprintf(b, "        - %s\n", p)
	}
	fmt.Fprintf(b, "      responses:\n        \"200\": %s\n        default: { $ref: \"#/components/responses/Error\" }\n", o.answer(op.Answer))
	return nil
}

// parameter describes a field of a body as a parameter.
func (o *openAPI) parameter(t reflect.Type, f reflect.StructField) (string, error) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "after" && t != reflect.TypeFor[protocol.KeysRequest]() {
		return `$ref: "#/components/parameters/after_name"`, nil
	}
	text := strings.TrimSuffix(plain(first(o.types.said[t.Name()+"."+f.Name].text)), ".")
	kind := ""
	switch of := f.Type; {
	case of == reflect.TypeFor[*protocol.Duration]() || of == reflect.TypeFor[protocol.Duration]():
		kind = `$ref: "#/components/schemas/Duration"`
	case of.Kind() == reflect.Bool, of == reflect.TypeFor[*bool]():
		kind = "type: boolean"
	case of.Kind() == reflect.Int:
		kind = "type: integer"
	case of.Kind() == reflect.Int64:
		kind = "type: integer, format: int64"
	case of.Kind() == reflect.String:
		kind = "type: string"
	default:
		return "", fmt.Errorf("%s is no parameter: expected a text, a number, a flag or a duration", of)
	}
	for mark := range strings.SplitSeq(f.Tag.Get("pq"), "; ") {
		switch key, value, _ := strings.Cut(mark, "="); key {
		case "":
		case "page":
			kind += ", minimum: 1, default: " + value
			text = "more counts as " + value
		case "min":
			kind += ", minimum: " + value
		case "maxlen":
			kind += ", maxLength: " + value
		case "enum":
			kind += ", enum: [" + strings.ReplaceAll(value, "|", ", ") + "]"
		default:
			return "", fmt.Errorf("the mark %q: expected page, min, maxlen or enum", mark)
		}
	}
	p := "name: " + name + ", in: query, "
	if options == "" {
		p += "required: true, "
	}
	if text != "" {
		p += "description: " + strconv.Quote(text) + ", "
	}
	return "{ " + p + "schema: { " + kind + " } }", nil
}

// bodies are those that are described by hand.
var bodies = map[reflect.Type]string{
	reflect.TypeFor[protocol.Config]():         jsonBody("required: true", `$ref: "#/components/schemas/Config"`),
	reflect.TypeFor[protocol.KeyChange]():      jsonBody("required: true", "type: object"),
	reflect.TypeFor[protocol.ScheduleChange](): jsonBody("required: true", `$ref: "#/components/schemas/ScheduleFields"`),
	reflect.TypeFor[protocol.SourceChange]():   jsonBody("required: true", `$ref: "#/components/schemas/SourceFields"`),
	reflect.TypeFor[protocol.LinkChange]():     jsonBody("required: true", `$ref: "#/components/schemas/LinkFields"`),
	reflect.TypeFor[protocol.SourceResume]():   jsonBody("", `$ref: "#/components/schemas/SourceResume"`),
	reflect.TypeFor[protocol.BulkRequest]():    `{ $ref: "#/components/requestBodies/Bulk" }`,
}

func jsonBody(in, schema string) string {
	if in != "" {
		in += ", "
	}
	return "{ " + in + "content: { application/json: { schema: { " + schema + " } } } }"
}

func (o *openAPI) body(body any) string {
	if c, is := body.(protocol.Change); is {
		body = c.Of
	}
	t := reflect.TypeOf(body)
	if known := bodies[t]; known != "" {
		return known
	}
	return jsonBody("required: true", o.schemaOf(t))
}

// answers are those that are described by hand.
var answers = map[reflect.Type]string{
	reflect.TypeFor[protocol.Config]():        response("Config"),
	reflect.TypeFor[protocol.Schedule]():      response("Schedule"),
	reflect.TypeFor[protocol.Source]():        response("Source"),
	reflect.TypeFor[protocol.Link]():          response("Link"),
	reflect.TypeFor[protocol.BulkAnswer]():    response("Bulk"),
	reflect.TypeFor[protocol.KeyInfo]():       jsonBody("description: the key", `$ref: "#/components/schemas/Key"`),
	reflect.TypeFor[protocol.KeySettings]():   jsonBody("description: its settings", `$ref: "#/components/schemas/KeySettings"`),
	reflect.TypeFor[protocol.Cancelled]():     jsonBody("description: how the item ended", `$ref: "#/components/schemas/Cancelled"`),
	reflect.TypeFor[protocol.Revoked]():       jsonBody("description: what became of the item", `$ref: "#/components/schemas/Revoked"`),
	reflect.TypeFor[protocol.PushResponse]():  jsonBody("description: where the item is", `$ref: "#/components/schemas/Pushed"`),
	reflect.TypeFor[protocol.KeysPage]():      pageOf("keys", "Key"),
	reflect.TypeFor[protocol.SchedulesPage](): pageOf("schedules", "Schedule"),
	reflect.TypeFor[protocol.SourcesPage]():   pageOf("sources", "Source"),
	reflect.TypeFor[protocol.LinksPage]():     pageOf("links", "Link"),
	reflect.TypeFor[protocol.ScheduleTimes](): jsonBody("description: the times", "type: object, properties: { times: { type: array, items: { type: string, format: date-time } } }"),
	reflect.TypeFor[protocol.Changed]():       response("Object"),
	reflect.TypeFor[protocol.Purged]():        response("Object"),
	reflect.TypeFor[protocol.Named]():         response("Object"),
	reflect.TypeFor[protocol.ScheduleNamed](): response("Object"),
	reflect.TypeFor[protocol.SourceNamed]():   response("Object"),
	reflect.TypeFor[protocol.LinkDeleted]():   response("Object"),
	reflect.TypeFor[protocol.System]():        response("Object"),
	reflect.TypeFor[protocol.SteppedDown]():   response("Object"),
	reflect.TypeFor[protocol.Replaced]():      response("Object"),
}

func response(name string) string { return `{ $ref: "#/components/responses/` + name + `" }` }

func pageOf(what, schema string) string {
	return jsonBody(`description: "`+what+`, and next if there are more"`,
		"type: object, properties: { next: { type: string }, "+what+`: { type: array, items: { $ref: "#/components/schemas/`+schema+`" } } }`)
}

func (o *openAPI) answer(answer any) string {
	t := reflect.TypeOf(answer)
	if known := answers[t]; known != "" {
		return known
	}
	return jsonBody("description: "+strconv.Quote(strings.TrimSuffix(o.types.described(t), ".")), o.schemaOf(t))
}

// schemaOf refers to the schema of a type that nobody describes by hand.
func (o *openAPI) schemaOf(t reflect.Type) string {
	o.types.reach(t, o.schemas)
	return `$ref: "` + inComponents(t.Name()) + `"`
}

// otherSchemas are the schemas of the types that nobody describes by hand.
func (o *openAPI) otherSchemas() (string, error) {
	var b strings.Builder
	byName := func(x, y reflect.Type) int { return strings.Compare(x.Name(), y.Name()) }
	for _, t := range slices.SortedFunc(maps.Keys(o.schemas), byName) {
		s, err := o.types.schema(t, inComponents)
		if err != nil {
			return "", err
		}
		s.Description = o.types.described(t)
		text, err := indented(object{{t.Name(), s}})
		if err != nil {
			return "", err
		}
		_, inner, _ := strings.Cut(strings.TrimSuffix(string(text), "\n}\n"), "{\n")
		for line := range strings.Lines(inner) {
			b.WriteString("  " + line)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
