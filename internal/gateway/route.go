package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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
	bodyText                // a word, a filter
	bodyItem                // the payload of an item, or items
	bodyDefinition          // fields of a configuration or definition
	bodySchedule            // fields of a schedule, one of which is an item
)

// routes are all routes. TestOpenAPI compares them with openapi.yaml.
var routes []*route

// init, because the streams look up routes themselves.
func init() {
	routes = []*route{
		{name: "access", method: "GET", path: "/v1/access", serve: access},
		{name: "openapi", method: "GET", path: "/v1/openapi.yaml", stream: serveOpenAPI},
		{name: "watch", method: "GET", path: "/v1/watch", query: []string{"path"}, stream: watch},
		{name: "system", method: "GET", path: "/v1/system", serve: system},
		{name: "bridges", method: "GET", path: "/v1/bridges", operator: true, serve: bridges},
		{name: "cluster", method: "GET", path: "/v1/cluster", operator: true, serve: cluster},
		{name: "replaceNode", method: "POST", path: "/v1/cluster/replace", query: []string{"old", "new"}, changes: true, operator: true, serve: replaceNode},
		{name: "stepDown", method: "POST", path: "/v1/cluster/step-down", query: []string{"node"}, changes: true, operator: true, serve: stepDown},
		{name: "history", method: "GET", path: "/v1/history", operator: true, serve: history},
		{name: "overview", method: "GET", path: "/v1/overview", query: []string{"after", "prefix", "limit"}, serve: overview},
		{name: "queues", method: "GET", path: "/v1/queues", query: []string{"after", "prefix", "limit", "total"}, serve: queues},
		{name: "info", method: "GET", path: "/v1/queues/{queue}", serve: info},
		{name: "queueHistory", method: "GET", path: "/v1/queues/{queue}/history", serve: queueHistory},
		{name: "delete", method: "DELETE", path: "/v1/queues/{queue}", changes: true, serve: deleteQueue},
		{name: "config", method: "GET", path: "/v1/queues/{queue}/config", serve: config},
		{name: "configure", method: "PATCH", path: "/v1/queues/{queue}/config", body: bodyDefinition, changes: true, serve: configure},
		{name: "keys", method: "GET", path: "/v1/queues/{queue}/keys", query: []string{"after", "limit"}, serve: keys},
		{name: "key", method: "GET", path: "/v1/queues/{queue}/keys/{key}", serve: key},
		{name: "setKey", method: "PATCH", path: "/v1/queues/{queue}/keys/{key}", body: bodyDefinition, changes: true, serve: setKey},
		{name: "pause", method: "POST", path: "/v1/queues/{queue}/pause", changes: true, serve: pause},
		{name: "resume", method: "POST", path: "/v1/queues/{queue}/resume", changes: true, serve: resume},
		{name: "purge", method: "POST", path: "/v1/queues/{queue}/purge", changes: true, serve: purge},
		{name: "push", method: "POST", path: "/v1/queues/{queue}/push", query: pushParameters, body: bodyItem, changes: true, serve: push},
		{name: "pushMany", method: "POST", path: "/v1/queues/{queue}/push-many", query: []string{"msg_id"}, body: bodyItem, changes: true, serve: pushMany},
		{name: "pop", method: "POST", path: "/v1/queues/{queue}/pop", query: popParameters, changes: true, serve: pop},
		{name: "peek", method: "GET", path: "/v1/queues/{queue}/peek", query: peekParameters, serve: peek},
		{name: "settle", method: "POST", path: "/v1/queues/{queue}/settle", query: []string{"ack"}, body: bodyText, changes: true, serve: settle},
		{name: "list", method: "GET", path: "/v1/queues/{queue}/items", query: []string{"state", "after", "min", "max", "key", "holder", "limit", "bodies", "preview", "attempts"}, serve: list},
		{name: "get", method: "GET", path: "/v1/queues/{queue}/items/{id}", query: []string{"attempts", "explain"}, serve: get},
		{name: "remove", method: "DELETE", path: "/v1/queues/{queue}/items/{id}", changes: true, serve: remove},
		{name: "move", method: "POST", path: "/v1/queues/{queue}/items/{id}/move", query: []string{"priority"}, changes: true, serve: move},
		{name: "requeue", method: "POST", path: "/v1/queues/{queue}/items/{id}/requeue", query: []string{"to"}, changes: true, serve: requeue},
		{name: "revoke", method: "POST", path: "/v1/queues/{queue}/items/{id}/revoke", query: []string{"fence", "delay", "reason"}, changes: true, serve: revoke},
		{name: "bulkRemove", method: "POST", path: "/v1/queues/{queue}/bulk/remove", body: bodyText, changes: true, serve: bulkRemove},
		{name: "bulkMove", method: "POST", path: "/v1/queues/{queue}/bulk/move", body: bodyText, changes: true, serve: bulkMove},
		{name: "bulkRevoke", method: "POST", path: "/v1/queues/{queue}/bulk/revoke", body: bodyText, changes: true, serve: bulkRevoke},
		{name: "bulkRequeue", method: "POST", path: "/v1/queues/{queue}/bulk/requeue", body: bodyText, changes: true, serve: bulkRequeue},
		{name: "schedules", method: "GET", path: "/v1/queues/{queue}/schedules", query: []string{"after", "limit"}, serve: schedules},
		{name: "schedule", method: "GET", path: "/v1/queues/{queue}/schedules/{schedule}", serve: schedule},
		{name: "setSchedule", method: "PATCH", path: "/v1/queues/{queue}/schedules/{schedule}", body: bodySchedule, changes: true, serve: setSchedule},
		{name: "deleteSchedule", method: "DELETE", path: "/v1/queues/{queue}/schedules/{schedule}", changes: true, serve: deleteSchedule},
		{name: "previewSchedule", method: "POST", path: "/v1/queues/{queue}/schedules/{schedule}/preview", body: bodySchedule, serve: previewSchedule},
		{name: "pauseSchedule", method: "POST", path: "/v1/queues/{queue}/schedules/{schedule}/pause", changes: true, serve: pauseSchedule},
		{name: "resumeSchedule", method: "POST", path: "/v1/queues/{queue}/schedules/{schedule}/resume", query: []string{"from"}, changes: true, serve: resumeSchedule},
		{name: "runSchedule", method: "POST", path: "/v1/queues/{queue}/schedules/{schedule}/run", query: []string{"msg_id"}, changes: true, serve: runSchedule},
		{name: "sources", method: "GET", path: "/v1/queues/{queue}/sources", query: []string{"after", "limit"}, serve: sources},
		{name: "source", method: "GET", path: "/v1/queues/{queue}/sources/{source}", serve: passSource(subjects.AdminSource)},
		{name: "setSource", method: "PATCH", path: "/v1/queues/{queue}/sources/{source}", body: bodyDefinition, changes: true, serve: setSource},
		{name: "deleteSource", method: "DELETE", path: "/v1/queues/{queue}/sources/{source}", changes: true, serve: passSource(subjects.AdminSourceDelete)},
		{name: "pauseSource", method: "POST", path: "/v1/queues/{queue}/sources/{source}/pause", changes: true, serve: passSource(subjects.AdminSourcePause)},
		{name: "resumeSource", method: "POST", path: "/v1/queues/{queue}/sources/{source}/resume", body: bodyText, changes: true, serve: passSource(subjects.AdminSourceResume)},
		{name: "links", method: "GET", path: "/v1/queues/{queue}/links", query: []string{"after", "limit"}, serve: links},
		{name: "link", method: "GET", path: "/v1/queues/{queue}/links/{link}", serve: passLink(subjects.AdminLink)},
		{name: "setLink", method: "PATCH", path: "/v1/queues/{queue}/links/{link}", body: bodyDefinition, changes: true, serve: setLink},
		{name: "deleteLink", method: "DELETE", path: "/v1/queues/{queue}/links/{link}", query: []string{"force"}, changes: true, serve: deleteLink},
		{name: "pauseLink", method: "POST", path: "/v1/queues/{queue}/links/{link}/pause", changes: true, serve: passLink(subjects.AdminLinkPause)},
		{name: "resumeLink", method: "POST", path: "/v1/queues/{queue}/links/{link}/resume", changes: true, serve: passLink(subjects.AdminLinkResume)},
	}
}

// parameters lists the parameters of a route.
func (r *route) parameters() string {
	if len(r.query) == 0 {
		return "none"
	}
	return strings.Join(r.query, ", ")
}

// find returns the route of a request, and the values of its path.
func find(method, escapedPath string) (*route, map[string]string, *refusal) {
	segments := strings.Split(escapedPath, "/")
	var methods []string
	for _, r := range routes {
		values, matches := match(r.path, segments)
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

func match(path string, segments []string) (values map[string]string, matches bool) {
	parts := strings.Split(path, "/")
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
