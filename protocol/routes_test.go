package protocol_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/protocol"
)

// ofGateway are the routes that ask for no operation, or for several.
var ofGateway = map[string]string{
	"GET /v1/access":       "what a token may do",
	"GET /v1/openapi.yaml": "the description itself",
	"GET /v1/watch":        "the answers of other routes, whenever they change",
	"GET /v1/bridges":      "all bridges, by discovery",
	"GET /v1/overview":     "queues, and info of each",

	"POST /v1/queues/{queue}/items/{id}/result": "a result, and a cancel when the caller hangs up",
}

// withoutRoute are the operations that HTTP does not have.
var withoutRoute = map[string]string{
	"import":   "a request brings one item: pq import reads files",
	"ack many": "a request settles one lease",
	"ack next": "a settlement and a pop are two requests",
	"take":     "between stores alone",
}

// Each operation has its route in the description of HTTP, and each route an operation. TestOpenAPI of the gateway compares
// the description with what is served.
func TestRoutes(t *testing.T) {
	t.Parallel()
	var described struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "../internal/gateway/openapi.yaml")), &described); err != nil {
		t.Fatal(err)
	}
	routes := make(map[string]bool) // whether an operation has it
	for path, methods := range described.Paths {
		for method := range methods {
			if method != "parameters" {
				routes[strings.ToUpper(method)+" "+path] = false
			}
		}
	}
	for _, o := range protocol.Ops {
		_, is := routes[o.HTTP]
		switch why := withoutRoute[o.Name]; {
		case o.HTTP == "" && why == "":
			t.Errorf("%s has no route: describe it, or list it", o.Name)
		case o.HTTP != "" && why != "":
			t.Errorf("%s has a route and is listed as one without", o.Name)
		case o.HTTP != "" && !is:
			t.Errorf("%s: openapi.yaml does not describe %s", o.Name, o.HTTP)
		case is:
			routes[o.HTTP] = true
		}
	}
	for route, has := range routes {
		if listed := ofGateway[route] != ""; has == listed {
			t.Errorf("%s: an operation has it: %t, it is listed as the gateway's own: %t", route, has, listed)
		}
	}
	for route := range ofGateway {
		if _, is := routes[route]; !is {
			t.Errorf("%s is listed and not described", route)
		}
	}
}
