package fdbpq

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey bounds the bytes of a key.
const MaxKey = 128

// MaxWeight is the greatest weight of a key.
const MaxWeight = 1000

// ErrKey: the key is not as it should be.
var ErrKey = errors.New("key")

// ErrNoKey: the request is about one key, and names no key.
var ErrNoKey = errors.New("expected a key")

// ErrWeight: a weight is out of bounds.
var ErrWeight = errors.New("weight out of bounds")

// CheckKey returns an error when a key is not as it should be.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w of %d bytes: allowed are %d", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w %q: expected UTF-8", ErrKey, key)
	case strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w %q: control characters are not allowed", ErrKey, key)
	case key != strings.TrimSpace(key):
		return fmt.Errorf("%w %q: spaces at its ends are not allowed", ErrKey, key)
	}
	return nil
}

// CheckWeight returns an error unless a push may have the weight, which belongs to the key of the item.
func CheckWeight(key string, weight int64) error {
	switch {
	case weight == 0:
		return nil
	case key == "":
		return fmt.Errorf("%w: a weight without a key: expected the key that it is about", ErrWeight)
	}
	return checkWeight(weight)
}

func checkWeight(weight int64) error {
	if weight < 1 || weight > MaxWeight {
		return fmt.Errorf("%w: %d, allowed are 1 to %d", ErrWeight, weight, MaxWeight)
	}
	return nil
}
