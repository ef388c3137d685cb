package expr

func init() {
	const g = "pattern"
	const same = "Regular expressions are PostgreSQL's, without back references and look-around, which are refused. "
	describe(g, "~", "Whether the text has a match of the regular expression. "+same+
		"They match anywhere unless ^ and $ say otherwise; of the matches that begin first the longest counts, or the shortest if the first quantifier has a ? behind it. A constant one is checked before anything runs.",
		example{`'thomas' ~ 't.*ma'`, "true"}, example{`'größe 42' ~ '^\w+ \d+$'`, "true"}, example{`'a.b' ~ '^a\.c'`, "false"})
	describe(g, "~*", "As ~, without a difference between upper and lower case.", example{`'thomas' ~* 'T.*MA'`, "true"})
	describe(g, "!~", "Whether the text has no match of the regular expression.", example{`'thomas' !~ 't.*max'`, "true"})
	describe(g, "!~*", "As !~, without a difference between upper and lower case.", example{`'thomas' !~* 'T.*MA'`, "false"})
	describe(g, "regexp_like", "As ~, with options as the third value: i for no difference between upper and lower case, n for line by line, x for an expanded pattern, q for a plain text.",
		example{`regexp_like('Hello World', 'world$', 'i')`, "true"})
	describe(g, "regexp_replace", `The text with the first match replaced; with the option g all, or from a place on match number n (0: all). \1 to \9 stand for the groups of the match, \& for all of it.`,
		example{`regexp_replace('foobarbaz', 'b..', 'X')`, "fooXbaz"}, example{`regexp_replace('foobarbaz', 'b(..)', 'X\1Y', 'g')`, "fooXarYXazY"},
		example{`regexp_replace('A PostgreSQL function', 'a|e|i|o|u', 'X', 1, 3, 'i')`, "A PostgrXSQL function"})
	describe(g, "regexp_count", "How many matches there are, from a place on, with options.", example{`regexp_count('123456789012', '\d{3}', 3)`, "3"})
	describe(g, "regexp_instr", "Where a match begins, in characters; 0 if there is none. Further values: the place to start at, which match, 1 for where it ends, options, which group.",
		example{`regexp_instr('ABCDEF', 'c(.)(..)', 1, 1, 0, 'i')`, "3"}, example{`regexp_instr('ABCDEF', 'c(.)(..)', 1, 1, 0, 'i', 2)`, "5"})
	describe(g, "regexp_substr", "A match; null if there is none. Further values: the place to start at, which match, options, which group.",
		example{`regexp_substr('ABCDEF', 'c(.)(..)', 1, 1, 'i')`, "CDEF"}, example{`regexp_substr('ABCDEF', 'c(.)(..)', 1, 1, 'i', 2)`, "EF"})
	describe(g, "substring", `The first match of a regular expression, or of its first group; null if there is none. With similar and escape: the part of the text between two \" of a pattern of similar to.`,
		example{`substring('foobar' from 'o.b')`, "oob"}, example{`substring('foobar' from 'o(.)b')`, "o"}, example{`substring('foobar' similar '%#"o_b#"%' escape '#')`, "oob"})
	describeForm(g, "similar to", "text [not] similar to pattern [escape character]",
		"Whether the whole text is like the pattern: % and _ as in like, and | * + ? {m,n} ( ) [ ] as in regular expressions.",
		example{`'abc' similar to '%(b|d)%'`, "true"}, example{`'abc' similar to '(b|c)%'`, "false"})
	describe(g, "similar_to_escape", "The regular expression of a pattern of similar to.", example{`similar_to_escape('a%_')`, "^(?:a.*.)$"})
}
