package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pqbridge/pqbridge/protocol"
)

// Values travel as payloads and results: a string and a []byte as they are, any other type as JSON. The zero struct{} and a nil pointer,
// interface, map or slice are no value, and no bytes. The clients in other languages do the same.

// Work is [Queue.Consume] with values: the payload of an item is an In, and what work returns is the result of the item, if its push asked
// for one; see [Call]. work gets the item by [ItemOf].
//
// Errors of work are those of a [Handler]. A payload that is no In, and a returned value that cannot be kept because it is too large or has
// no JSON, end the item as [GiveUp] does: the work is not done again, and the caller hears the reason. What work returns is dropped if it
// has settled the item itself.
func Work[In, Out any](ctx context.Context, q *Queue, work func(ctx context.Context, in In) (Out, error), o ConsumeOptions) error {
	return q.consume(ctx, func(ctx context.Context, item *Item) ([]byte, error) {
		in, err := decode[In](item.Payload)
		if err != nil {
			return nil, GiveUp(fmt.Errorf("the payload is no %s: %w", nameOf[In](), err))
		}
		out, err := work(context.WithValue(ctx, itemKey{}, item), in)
		if err != nil || item.ResultTTL == 0 || item.isSettled() {
			return nil, err
		}
		value, err := encode(out)
		if err != nil {
			return nil, GiveUp(fmt.Errorf("the returned value cannot be kept: %w", err))
		}
		return value, nil
	}, o)
}

type itemKey struct{}

// ItemOf returns the item on which [Work] works, nil if the context is another one.
func ItemOf(ctx context.Context) *Item {
	item, _ := ctx.Value(itemKey{}).(*Item)
	return item
}

// Call pushes a value and waits until it is done, as [Queue.PushAndWait] does, and returns the value that came of the work: that of a
// function of [Work], or what a handler in another language returned. If the item ended otherwise, or the value is missing or no Out, the
// error is a [CallError]. If the wait ends early, it is [ErrNoResultYet].
func Call[Out, In any](ctx context.Context, q *Queue, in In, opts ...PushOption) (out Out, err error) {
	payload, err := encode(in)
	if err != nil {
		return out, fmt.Errorf("call %s: %w", q.name, err)
	}
	id, r, err := q.pushAndWait(ctx, payload, opts)
	if err != nil {
		return out, err
	}
	failed := &CallError{Queue: q.name, ID: id, Result: r}
	if r.Outcome != protocol.FinishDone || r.Dropped {
		return out, failed
	}
	if out, err = decode[Out](r.Body); err != nil {
		failed.cause = fmt.Errorf("its value is no %s: %w", nameOf[Out](), err)
		return out, failed
	}
	return out, nil
}

// CallError is the error of a [Call] whose item has ended without a value for the caller.
type CallError struct {
	Queue, ID string
	Result    *Result

	cause error
}

func (e *CallError) Error() string {
	is := "is " + string(e.Result.Outcome)
	switch {
	case e.cause != nil:
		is += ", and " + e.cause.Error()
	case e.Result.Dropped:
		is += ", and its queue had no room for the value"
	case cmp.Or(e.Result.Cause, e.Result.Reason) != "":
		is += ": " + cmp.Or(e.Result.Cause, e.Result.Reason)
	case e.Result.Next != "":
		is = "went on to " + e.Result.Next
	}
	return fmt.Sprintf("call %s: item %s %s", e.Queue, e.ID, is)
}

// Unwrap returns the error of reading a value that is no Out.
func (e *CallError) Unwrap() error { return e.cause }

// Is reports whether the item was cancelled, of [ErrCancelled].
func (e *CallError) Is(target error) bool {
	return target == ErrCancelled && e.Result.Outcome == protocol.FinishCancelled
}

// encode returns the bytes of a value, nil for none.
func encode[T any](value T) ([]byte, error) {
	switch v := any(value).(type) {
	case nil, struct{}:
		return nil, nil
	case string:
		return []byte(v), nil
	case []byte:
		return v, nil
	}
	if v := reflect.ValueOf(value); isNilable(v.Kind()) && v.IsNil() {
		return nil, nil
	}
	return json.Marshal(value)
}

// decode reads a value from its bytes.
func decode[T any](data []byte) (value T, err error) {
	switch to := any(&value).(type) {
	case *string:
		*to = string(data)
		return value, nil
	case *[]byte:
		*to = data
		return value, nil
	}
	if kind := reflect.TypeFor[T](); len(data) == 0 && (isNilable(kind.Kind()) || kind == reflect.TypeFor[struct{}]()) {
		return value, nil
	}
	return value, json.Unmarshal(data, &value)
}

func isNilable(kind reflect.Kind) bool {
	switch kind {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return true
	}
	return false
}

func nameOf[T any]() string { return reflect.TypeFor[T]().String() }
