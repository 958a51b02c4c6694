package batch

import "time"

// marks are keys that are treated specially for a while.
type marks map[string]time.Time // until when

// maxMarks bounds the keys with a mark. When there would be more, all marks end.
const maxMarks = 4096

func (m marks) add(d time.Duration, keys ...string) {
	if len(m)+len(keys) > maxMarks {
		clear(m)
	}
	until := time.Now().Add(d)
	for _, key := range keys {
		if until.After(m[key]) {
			m[key] = until
		}
	}
}

func (m marks) has(key string) bool {
	until, is := m[key]
	if is && !time.Now().Before(until) {
		delete(m, key)
		is = false
	}
	return is
}
