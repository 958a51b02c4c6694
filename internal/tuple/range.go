package tuple

// Range returns the bounds, begin <= key < end, of the keys that are prefix
// followed by a packed tuple of at least one element; prefix itself is not
// among them.
func Range(prefix []byte) (begin, end []byte) {
	// Every type code is below 0xff.
	return appended(prefix, 0x00), appended(prefix, 0xff)
}

func appended(prefix []byte, c byte) []byte {
	b := make([]byte, 0, len(prefix)+1)
	return append(append(b, prefix...), c)
}

// PrefixEnd returns the first key after all keys that start with prefix, or nil if there is none because prefix has
// only 0xff bytes.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return appended(prefix[:i], prefix[i]+1)
		}
	}
	return nil
}
