package codec

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// noBody refuses a body that would be ignored.
func noBody(m *nats.Msg, verb string) *failure.Failure {
	if len(bytes.TrimSpace(m.Data)) > 0 {
		return failure.Newf(400, "%s has the body %s: expected none", verb, failure.Quote(string(m.Data)))
	}
	return nil
}

// NoOwnHeaders refuses PQ- headers of a request that defines none.
func NoOwnHeaders(header nats.Header, what string) *failure.Failure {
	for key := range header {
		if strings.HasPrefix(key, protocol.HeaderPrefix) {
			return failure.Newf(400, "header %s is none of %s: expected no %s header", failure.Quote(key), what, protocol.HeaderPrefix)
		}
	}
	return nil
}

// NoOptions refuses a body and PQ- headers of a request without options.
func NoOptions(m *nats.Msg, verb string) *failure.Failure {
	if f := NoOwnHeaders(m.Header, verb); f != nil {
		return f
	}
	return noBody(m, verb)
}

// ReadOptions reads the options in the body of a request, each with field: see [ReadObject].
func ReadOptions(m *nats.Msg, verb, fields string, field func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	if f := NoOwnHeaders(m.Header, verb); f != nil {
		return f
	}
	if len(bytes.TrimSpace(m.Data)) == 0 {
		return nil
	}
	return ReadObject("the body", m.Data, fields, field)
}

// ReadFlags reads the options in the body of a request that are true or false.
func ReadFlags(m *nats.Msg, verb string, flags map[string]*bool) *failure.Failure {
	fields := strings.Join(slices.Sorted(maps.Keys(flags)), ", ")
	return ReadOptions(m, verb, fields, func(name string, value any) (known bool, f *failure.Failure) {
		flag := flags[name]
		if flag == nil {
			return false, nil
		}
		*flag, f = ReadBool(name, value)
		return true, f
	})
}

// ReadLimit reads the length of a page.
func ReadLimit(name string, value any) (int, *failure.Failure) {
	n, f := ReadInteger(name, value, 1, math.MaxInt64)
	return int(min(n, fdbpq.MaxBatch)), f
}

// ReadState reads the state of items.
func ReadState(name string, value any) (fdbpq.State, *failure.Failure) {
	s, f := ReadString(name, value)
	switch state := fdbpq.State(s); state {
	case fdbpq.StateReady, fdbpq.StateLeased, fdbpq.StateDelayed:
		return state, f
	}
	if f == nil {
		f = failure.Newf(400, `%s is %s: expected "ready", "leased" or "delayed"`, name, failure.Quote(s))
	}
	return "", f
}

// ReadBand reads the least or the greatest priority of a band. A nil band stands for all priorities so far.
func ReadBand(band *fdbpq.Band, name string, least bool, value any) (*fdbpq.Band, *failure.Failure) {
	n, f := ReadInteger(name, value, math.MinInt64, math.MaxInt64)
	if band == nil {
		band = new(fdbpq.AllPriorities)
	}
	if least {
		band.Low = n
	} else {
		band.High = n
	}
	return band, f
}
