package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// routes are all routes. TestOpenAPI compares them with openapi.yaml.
type routes []*route

// newRoutes returns the routes of which the gateway knows more than that it passes a request on, and then those of all
// other operations.
func newRoutes() routes {
	all := routes{
		{name: "access", method: "GET", path: "/v1/access", serve: access},
		{name: "openapi", method: "GET", path: "/v1/openapi.yaml", stream: serveOpenAPI},
		{name: "watch", method: "GET", path: "/v1/watch", query: []string{"path"}, stream: watch},
		{name: "bridges", method: "GET", path: "/v1/bridges", operator: true, serve: bridges},
		{name: "cluster", method: "GET", path: "/v1/cluster", operator: true, serve: cluster},
		{name: "history", method: "GET", path: "/v1/history", operator: true, serve: history},
		{name: "overview", method: "GET", path: "/v1/overview", query: []string{"after", "prefix", "limit"}, serve: overview},
		{name: "queues", method: "GET", path: "/v1/queues", query: []string{"after", "prefix", "limit", "total"}, serve: queues},
		{name: "info", method: "GET", path: "/v1/queues/{queue}", serve: info},
		{name: "queueHistory", method: "GET", path: "/v1/queues/{queue}/history", serve: queueHistory},
		{name: "push", method: "POST", path: "/v1/queues/{queue}/push", query: pushParameters, body: bodyItem, changes: true, serve: push},
		{name: "pushMany", method: "POST", path: "/v1/queues/{queue}/push-many", query: []string{"msg_id"}, body: bodyItem, changes: true, serve: pushMany},
		{name: "pop", method: "POST", path: "/v1/queues/{queue}/pop", query: popParameters, changes: true, serve: pop},
		{name: "peek", method: "GET", path: "/v1/queues/{queue}/peek", query: peekParameters, serve: peek},
		{name: "settle", method: "POST", path: "/v1/queues/{queue}/settle", query: []string{"ack", "cost"}, body: bodyItem, changes: true, serve: settle},
		{name: "list", method: "GET", path: "/v1/queues/{queue}/items", query: []string{"state", "after", "min", "max", "key", "holder", "limit", "bodies", "preview", "attempts", "progress"}, serve: list},
		{name: "get", method: "GET", path: "/v1/queues/{queue}/items/{id}", query: []string{"attempts", "explain"}, serve: get},
		{name: "result", method: "GET", path: "/v1/queues/{queue}/items/{id}/result", query: []string{"wait"}, serve: result},
		{name: "awaitResult", method: "POST", path: "/v1/queues/{queue}/items/{id}/result", query: []string{"wait", "cancel"}, changes: true, serve: awaitResult},
		{name: "runSchedule", method: "POST", path: "/v1/queues/{queue}/schedules/{schedule}/run", query: []string{"msg_id"}, changes: true, serve: runSchedule},
	}
	for i := range protocol.Ops {
		o := &protocol.Ops[i]
		served := slices.ContainsFunc(all, func(r *route) bool { return r.method+" "+r.path == o.HTTP })
		if o.HTTP != "" && !served {
			all = append(all, passing(o))
		}
	}
	return all
}

// find returns the route of a request, and the values of its path.
func (all routes) find(method, escapedPath string) (*route, map[string]string, *refusal) {
	segments := strings.Split(escapedPath, "/")
	var methods []string
	for _, r := range all {
		values, matches := r.match(segments)
		switch {
		case !matches:
		case r.method == method:
			return r, values, nil
		case !slices.Contains(methods, r.method):
			methods = append(methods, r.method)
		}
	}
	if len(methods) == 0 {
		return nil, nil, refusef(protocol.CodeNotFound, "there is no such path: expected one of those in /v1/openapi.yaml")
	}
	why := refusef(http.StatusMethodNotAllowed, "method %s: expected %s", method, strings.Join(methods, " or "))
	why.allow = strings.Join(methods, ", ")
	return nil, nil, why
}

// route is a method of a path.
type route struct {
	name    string // in openapi.yaml: the operationId
	method  string
	path    string   // {…} stands for a segment
	query   []string // parameters
	body    bodyKind
	changes bool // the request changes something, and needs a right

	operator bool // the request is about more than the queues of one tenant

	serve  func(*input) (*answer, *refusal)
	stream func(*Gateway, http.ResponseWriter, *http.Request, *input) // instead of serve
}

// bodyKind is the kind of a request's body.
type bodyKind int

const (
	bodyNone       bodyKind = iota
	bodyText                // a filter
	bodyItem                // the payload of an item, items, or a word with a result
	bodyDefinition          // fields of a configuration or definition
	bodySchedule            // fields of a schedule, one of which is an item
)

// parameters lists the parameters of a route.
func (r *route) parameters() string {
	if len(r.query) == 0 {
		return "none"
	}
	return strings.Join(r.query, ", ")
}

// match returns the values of the path, if it is one of the route.
func (r *route) match(segments []string) (values map[string]string, matches bool) {
	parts := strings.Split(r.path, "/")
	if len(parts) != len(segments) {
		return nil, false
	}
	for i, part := range parts {
		name, is := strings.CutPrefix(part, "{")
		if !is {
			if part != segments[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || value == "" {
			return nil, false
		}
		if values == nil {
			values = make(map[string]string)
		}
		values[strings.TrimSuffix(name, "}")] = value
	}
	return values, true
}
