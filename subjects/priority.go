package subjects

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePriority parses a priority in its canonical form. It refuses other spellings, since
// permissions for a priority's subject would not cover them.
func ParsePriority(s string) (int64, error) {
	digits := strings.TrimPrefix(s, "-")
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, errPriority(s)
		}
	}
	if digits == "" || digits[0] == '0' && s != "0" {
		return 0, errPriority(s)
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("priority %s: expected -9223372036854775808 to 9223372036854775807", quote(s))
	}
	return v, nil
}

func errPriority(s string) error {
	return fmt.Errorf("priority %s: expected an integer in decimal, without +, leading zeros or spaces", quote(s))
}

func appendPriority(b []byte, priority int64) []byte {
	return strconv.AppendInt(append(b, '.'), priority, 10)
}
