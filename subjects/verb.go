package subjects

import "strings"

// Verb is the operation that a subject requests. The zero Verb is invalid.
type Verb uint8

// Administers reports whether requests with the verb are an administrator's.
func (v Verb) Administers() bool { return strings.HasPrefix(v.String(), "admin.") }

// String returns the verb's tokens in a subject, such as "pop.min".
func (v Verb) String() string {
	if v < Push || int(v) >= len(verbNames) {
		return "none"
	}
	return verbNames[v]
}

// Pattern returns the pattern of requests with the verb, behind the prefix. Verbs that differ in one token share theirs.
func (v Verb) Pattern() string {
	if v < Push || int(v) >= len(patterns) {
		return ""
	}
	return patterns[v]
}
