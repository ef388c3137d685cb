package expr

func init() {
	j := kJSON
	register(
		function{name: "?", args: []kind{j, kString}, ret: kBool, kernel: jsonAsk(func(doc []byte, a *vec, i int, scratch *[]byte) bool {
			return jsonExists(doc, a.text(i&a.mask()), scratch)
		})},
		function{name: "?|", args: []kind{j, kTexts}, ret: kBool, kernel: jsonAsk(func(doc []byte, a *vec, i int, scratch *[]byte) bool {
			return anyExists(doc, a, i, scratch, true)
		})},
		function{name: "?&", args: []kind{j, kTexts}, ret: kBool, kernel: jsonAsk(func(doc []byte, a *vec, i int, scratch *[]byte) bool {
			return !anyExists(doc, a, i, scratch, false)
		})},
	)
}

func jsonAsk(ask func(doc []byte, a *vec, i int, scratch *[]byte) bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		w := c.jsonOut(false)
		eachWord(growBits(out, c.n), c.n, func(i int) bool {
			return c.counts(i) && ask(a[0].bytes(i&a[0].mask()), a[1], i, &w.scratch)
		})
	}
}

// anyExists says whether a text of list i is there, or, for is false, is not. Null ones
// are left out.
func anyExists(doc []byte, a *vec, i int, scratch *[]byte, is bool) bool {
	from, to := a.span(i)
	for k := from; k < to; k++ {
		if !a.elem.isNull(k) && jsonExists(doc, a.elem.text(k), scratch) == is {
			return true
		}
	}
	return false
}

// jsonExists says whether key is a member's name, an element that is a string, or the
// string itself.
func jsonExists(doc []byte, key string, scratch *[]byte) bool {
	i := jsonSpace(doc, 0)
	if i >= len(doc) {
		return false
	}
	switch doc[i] {
	case '{':
		_, ok := jsonMember(doc, i, key, scratch)
		return ok
	case '"':
		return jsonIs(doc, i, key, scratch)
	case '[':
		for i = jsonSpace(doc, i+1); i < len(doc) && doc[i] != ']'; i = jsonNext(doc, jsonSkip(doc, i)) {
			if doc[i] == '"' && jsonIs(doc, i, key, scratch) {
				return true
			}
		}
	}
	return false
}

// jsonIs says whether the string that begins at i is s.
func jsonIs(doc []byte, i int, s string, scratch *[]byte) bool {
	end, escaped := jsonString(doc, i)
	text := doc[i+1 : end-1]
	if escaped {
		*scratch, _ = jsonUnescape((*scratch)[:0], text)
		text = *scratch
	}
	return string(text) == s
}
