package gateway

import (
	"net/http"
	"net/url"
	"strings"
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
