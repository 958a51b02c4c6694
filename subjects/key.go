package subjects

import (
	"fmt"
	"strings"
)

// MaxKey bounds the bytes of an item's key.
const MaxKey = 128

const hexDigits = "0123456789ABCDEF"

// appendKey appends a key as one token: each byte but A-Z a-z 0-9 - _ is % and two
// hexadecimal digits.
func appendKey(b []byte, key string) []byte {
	for i := range len(key) {
		if c := key[i]; isName(key[i : i+1]) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

// unescapeKey returns the key that a token stands for. A key has one spelling, so that a
// permission for its subject is a permission for the key.
func unescapeKey(token string) (string, error) {
	const most = MaxKey * len("%XX")
	if token == "" || len(token) > most {
		return "", keyError(token)
	}
	if isName(token) && len(token) <= MaxKey {
		return token, nil
	}
	key := make([]byte, 0, MaxKey)
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '%' {
			if i+2 >= len(token) {
				return "", keyError(token)
			}
			high, low := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
			if high < 0 || low < 0 {
				return "", keyError(token)
			}
			c = byte(high<<4 | low)
			i += 2
			if isName(string(rune(c))) {
				return "", keyError(token)
			}
		} else if !isName(token[i : i+1]) {
			return "", keyError(token)
		}
		key = append(key, c)
	}
	if len(key) > MaxKey {
		return "", keyError(token)
	}
	return string(key), nil
}

func keyError(token string) error {
	return fmt.Errorf("key %s: expected 1 to %d bytes, of which A-Z a-z 0-9 - _ stand as they are, and all others as %%XX in upper case", quote(token), MaxKey)
}
