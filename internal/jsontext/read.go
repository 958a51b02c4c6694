package jsontext

// These functions read valid JSON a piece at a time, so that a reader may stop at the first unexpected piece, and
// pieces are no copies. They do not repeat the checks of [Check].

// Fields calls a function with the name and the value of each field of an object, until the function reports
// false. It returns false when the text is no object.
func Fields(text string, each func(name, value string) (more bool)) (is bool) {
	c := checker{text: text}
	return c.fields(each)
}

// Cut cuts an object around the value of a field.
func Cut(text, field string) (before, value, after string, found bool) {
	c := checker{text: text}
	c.fields(func(name, of string) bool {
		if found = name == field; found {
			before, value, after = text[:c.at-len(of)], of, text[c.at:]
		}
		return !found
	})
	return before, value, after, found
}

func (c *checker) fields(each func(name, value string) (more bool)) (is bool) {
	if c.next() != '{' {
		return false
	}
	c.at++
	for more := true; more && c.next() != '}'; {
		if c.text[c.at] == ',' {
			c.at++
			c.next()
		}
		name := unquote(c.raw())
		c.next()
		c.at++ // the colon
		more = each(name, c.skip())
	}
	return true
}

// Values does the same for the values of an array.
func Values(text string, each func(value string) (more bool)) (is bool) {
	c := checker{text: text}
	if c.next() != '[' {
		return false
	}
	c.at++
	for more := true; more && c.next() != ']'; {
		if c.text[c.at] == ',' {
			c.at++
		}
		more = each(c.skip())
	}
	return true
}

// Text returns the text of a string, false when the value is no string.
func Text(value string) (text string, is bool) {
	if value == "" || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

// skip returns the value that begins here.
func (c *checker) skip() string {
	c.next()
	begin := c.at
	for depth := 0; ; {
		switch c.text[c.at] {
		case '"':
			c.raw()
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			depth--
			c.at++
		case ',', ':':
			c.at++
		default:
			c.scalar()
		}
		if depth == 0 {
			return c.text[begin:c.at]
		}
		c.next()
	}
}
