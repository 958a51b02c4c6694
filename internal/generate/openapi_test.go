package main

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

const written = `paths:
  /v1/queues/{queue}:
    get:
      operationId: info
  # generated: operations that are passed on
  /v1/gone:
    get:
  # /generated
`

// What is written by hand is left out, and all else is described by rows and types. A type that nobody describes by hand gets a schema.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	paths, schemas, err := passedOn(typesOf(t), []protocol.Op{
		{Name: "info", HTTP: "GET /v1/queues/{queue}", Answer: protocol.Info{}},
		{Name: "look at", HTTP: "GET /v1/queues/{queue}/paint/{hue}", Subject: "<queue>.look.<name>", Body: protocol.KeysRequest{}, Answer: protocol.HistoryRequest{}, Doc: "Shows a \"hue\"."},
		{Name: "mix", HTTP: "POST /v1/queues/{queue}/paint/{hue}", Subject: "<queue>.mix.<name>.<priority>", Answer: protocol.Purged{}, Doc: "Mixes."},
		{Name: "set hue", HTTP: "PATCH /v1/queues/{queue}/paint/{hue}", Subject: "<queue>.admin.mix.<name>", Body: protocol.LinkTake{}, Answer: protocol.Purged{}, Doc: "Sets."},
		{Name: "swap", HTTP: "POST /v1/paint", Subject: "_sys.swap", Body: protocol.Replace{}, Answer: protocol.Purged{}, Doc: "Swaps."},
		{Name: "without a route", Subject: "<queue>.dry"},
	}, written)
	if err != nil {
		t.Fatal(err)
	}
	const want = `  /v1/queues/{queue}/paint/{hue}:
    parameters: [{ $ref: "#/components/parameters/queue" }, { name: hue, in: path, required: true, schema: { type: string } }]
    get:
      operationId: lookAt
      summary: "Shows a \"hue\""
      parameters:
        - { name: after, in: query, description: "the page begins behind this key, which need not exist", schema: { type: string } }
        - { name: limit, in: query, description: "more counts as 100", schema: { type: integer, minimum: 1, default: 100 } }
      responses:
        "200": { description: "`
	if !strings.HasPrefix(paths, want) {
		t.Errorf("the paths are\n%s", paths)
	}
	for _, part := range []string{
		"        - { name: old, in: query, required: true, description: \"",
		"schema: { $ref: \"#/components/schemas/HistoryRequest\" } } } }\n        default",
		"    post:\n      operationId: mix\n      summary: \"Mixes\"\n      parameters:\n        - $ref: \"#/components/parameters/priority\"\n      responses:\n        \"200\": { $ref: \"#/components/responses/Object\" }\n",
		"    patch:\n      operationId: setHue\n      summary: \"Sets\"\n      requestBody: { required: true, content: { application/json: { schema: { $ref: \"#/components/schemas/LinkTake\" } } } }\n",
	} {
		if !strings.Contains(paths, part) {
			t.Errorf("the paths\n%s\nlack\n%s", paths, part)
		}
	}
	if !strings.Contains(schemas, "    \"HistoryRequest\": {\n") || !strings.Contains(schemas, "    \"LinkTake\": {\n") || strings.Contains(schemas, "Purged") {
		t.Errorf("the schemas are\n%s", schemas)
	}
}

// What cannot be described is an error.
func TestPassedOnRefuses(t *testing.T) {
	t.Parallel()
	type strange struct {
		Hues []string `json:"hues"`
	}
	type marked struct {
		Hue string `json:"hue" pq:"most=5"`
	}
	for _, odd := range []protocol.Op{
		{Name: "another method", HTTP: "DELETE /v1/queues/{queue}"},
		{Name: "a list", HTTP: "GET /v1/paint", Body: strange{}},
		{Name: "an unknown mark", HTTP: "GET /v1/paint", Body: marked{}},
	} {
		if paths, _, err := passedOn(typesOf(t), []protocol.Op{odd}, written); err == nil {
			t.Errorf("%s is described as\n%s", odd.Name, paths)
		}
	}
}
