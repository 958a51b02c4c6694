package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// pushParameters are the parameters of a push in openapi.yaml.
func pushParameters(all []protocol.PushHeader) string {
	var b strings.Builder
	for i := range all {
		h := &all[i]
		fmt.Fprintf(&b, "        - { name: %s, in: query, description: %s, schema: { %s } }\n", h.Word, strconv.Quote(h.Doc), pushType(h))
	}
	return b.String()
}

// pushFields are the fields of an item in the body of a push of many.
func pushFields(all []protocol.PushHeader) string {
	var b strings.Builder
	for i := range all {
		h := &all[i]
		kind := pushType(h)
		if !strings.HasPrefix(kind, "$ref") {
			kind += ", description: " + strconv.Quote(h.Doc)
		}
		fmt.Fprintf(&b, "        %s: { %s }\n", h.Word, kind)
	}
	return b.String()
}

// itemProperties are the properties of an item that a push has given it, beside those that each answer has.
func itemProperties(all []protocol.PushHeader) string {
	var b strings.Builder
	for i := range all {
		if h := &all[i]; h.Stays() && !h.Always {
			kind, _, _ := strings.Cut(pushType(h), ",") // of what is there, the bounds do not matter
			fmt.Fprintf(&b, "        %s: { %s }\n", h.Word, kind)
		}
	}
	return b.String()
}

// pushType is the type of a value in openapi.yaml.
func pushType(h *protocol.PushHeader) string {
	switch h.Type.(type) {
	case int64:
		if h.Most > 0 {
			return fmt.Sprintf("type: integer, minimum: 1, maximum: %d", h.Most)
		}
		return "type: integer, format: int64"
	case protocol.Duration:
		return `$ref: "#/components/schemas/Duration"`
	case time.Time:
		return "type: string, format: date-time"
	}
	switch {
	case h.Words != nil:
		return "type: string, enum: [" + strings.Join(h.Words, ", ") + "]"
	case h.Most > 0:
		return fmt.Sprintf("type: string, maxLength: %d", h.Most)
	}
	return "type: string"
}
