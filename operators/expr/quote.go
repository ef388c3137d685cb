package expr

import "strings"

func init() {
	s := kString
	register(
		function{name: "quote_ident", args: []kind{s}, ret: s, kernel: mapText(appendIdent)},
		function{name: "quote_literal", args: []kind{s}, ret: s, kernel: quoteKernel},
		function{name: "quote_literal", args: []kind{kAny}, ret: s, kernel: quoteKernel},
		function{name: "quote_nullable", args: []kind{s}, ret: s, loose: true, kernel: quoteKernel},
		function{name: "quote_nullable", args: []kind{kAny}, ret: s, loose: true, kernel: quoteKernel})
	describe("string", "quote_ident", "The text as a name in SQL, in quotes if it needs them.", example{"quote_ident('Foo bar')", `"Foo bar"`}, example{"quote_ident('foo')", "foo"})
	describe("string", "quote_literal", "The value as a literal in SQL.", example{"quote_literal('O''Reilly')", "'O''Reilly'"}, example{"quote_literal(42.5)", "'42.5'"})
	describe("string", "quote_nullable", "As quote_literal; null is the word NULL.", example{"quote_nullable(null)", "NULL"})
}

// sqlWords are PostgreSQL's words that are no names without quotes.
var sqlWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`all analyse analyze and any array as asc asymmetric authorization between bigint
		binary bit boolean both case cast char character check coalesce collate collation column concurrently
		constraint create cross current_catalog current_date current_role current_schema current_time
		current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists
		extract false fetch float for foreign freeze from full grant greatest group grouping having ilike in
		initially inner inout int integer intersect interval into is isnull join lateral leading least left like
		limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric offset
		on only or order out outer overlaps overlay placing position precision primary real references returning
		right row select session_user setof similar smallint some substring symmetric table tablesample then time
		timestamp to trailing treat trim true union unique user using values varchar variadic verbose when where
		window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
		xmlserialize xmltable`) {
		m[w] = true
	}
	return m
}()

func appendIdent(dst []byte, s string) []byte {
	plain := s != "" && !digit(s[0]) && !sqlWords[s]
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || digit(s[i])
	}
	if plain {
		return append(dst, s...)
	}
	return append(appendDoubled(append(dst, '"'), s, `"`), '"')
}

// appendDoubled writes s with the characters of marks twice.
func appendDoubled(dst []byte, s, marks string) []byte {
	for i := range len(s) {
		if strings.IndexByte(marks, s[i]) >= 0 {
			dst = append(dst, s[i])
		}
		dst = append(dst, s[i])
	}
	return dst
}

func appendLiteral(dst []byte, s string) []byte {
	if strings.IndexByte(s, '\\') >= 0 {
		dst = append(dst, 'E')
	}
	return append(appendDoubled(append(dst, '\''), s, `'\`), '\'')
}

func quoteKernel(c *call, out *vec, a []*vec) {
	write := textOf(c.node.args[0].typ, a[0])
	m := a[0].mask()
	var buf []byte
	eachValue(c, out, func(dst []byte, i int) []byte {
		if a[0].isNull(i) {
			return append(dst, "NULL"...)
		}
		buf = write(buf[:0], i&m)
		return appendLiteral(dst, view(buf))
	})
}
