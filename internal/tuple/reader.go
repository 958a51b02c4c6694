package tuple

// Reader reads the elements of a packed tuple one after the other. After an error it reads zero
// values, so one look at Err is enough.
type Reader struct {
	rest []byte
	err  error
}

// Read returns a reader of b. The values that it reads refer to b.
func Read(b []byte) Reader { return Reader{rest: b} }

// Int reads an integer.
func (r *Reader) Int() (v int64) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeInt(r.rest)
	}
	return v
}

// Ints reads integers.
func (r *Reader) Ints(to ...*int64) {
	for _, v := range to {
		*v = r.Int()
	}
}

// Bytes reads a byte string.
func (r *Reader) Bytes() (v []byte) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeBytes(r.rest)
	}
	return v
}

// Text reads a string.
func (r *Reader) Text() (v string) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeString(r.rest)
	}
	return v
}

// Skip reads an element of any type.
func (r *Reader) Skip() {
	switch {
	case r.err != nil:
	case len(r.rest) == 0:
		r.err = errShort("an element")
	default:
		_, r.rest, r.err = consumeAny(r.rest, 0)
	}
}

// More reports whether there are elements left.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// Rest is the part that was not read.
func (r *Reader) Rest() []byte { return r.rest }

// Err is the first error, nil if there was none.
func (r *Reader) Err() error { return r.err }
