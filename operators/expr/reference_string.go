package expr

func init() {
	describe("string", "||", "Both texts, one behind the other. A value of another type is written as text; null with anything is null.",
		example{"'a' || 'b'", "ab"}, example{"'n = ' || 42", "n = 42"})
	describe("binary", "||", "Both byte strings, one behind the other.",
		example{`'\x01'::bytea || '\x02'::bytea`, `\x0102`})
	describe("string", "ascii", "The code of the first character; 0 of the empty text.", example{"ascii('x')", "120"})
	describe("string", "chr", "The character of a code.", example{"chr(65)", "A"}, example{"chr(8364)", "€"})
	describe("string", "bit_length", "The number of bits of the text in UTF-8.", example{"bit_length('jose')", "32"})
	describe("string", "octet_length", "The number of bytes of the text in UTF-8, or of a byte string.", example{"octet_length('jos\u00e9')", "5"})
	describe("string", "length", "The number of characters.", example{"length('jos\u00e9')", "4"})
	describe("binary", "length", "The number of bytes.", example{`length('\x010203'::bytea)`, "3"})
	describe("string", "char_length", "The number of characters, as length.", example{"char_length('jos\u00e9')", "4"})
	describe("string", "character_length", "The number of characters, as length.", example{"character_length('jos\u00e9')", "4"})
	describe("string", "btrim", "The text without the characters of the second text, blanks if there is none, at both ends.",
		example{"btrim('xyxtrimyyx', 'xyz')", "trim"}, example{"btrim('  a ')", "a"})
	describe("string", "ltrim", "As btrim, at the start alone.", example{"ltrim('zzzytest', 'xyz')", "test"})
	describe("string", "rtrim", "As btrim, at the end alone.", example{"rtrim('testxxzx', 'xyz')", "test"})
	describeForm("string", "trim", "trim([both | leading | trailing] [characters] from text)",
		"btrim, ltrim and rtrim in the words of the standard.",
		example{"trim(both 'xyz' from 'yxTomxx')", "Tom"}, example{"trim(leading from '  a')", "a"})
	describe("string", "concat", "All values as text, one behind the other. Nulls are left out.",
		example{"concat('abc', 2, null, true)", "abc2t"})
	describe("string", "concat_ws", "As concat, with the first text between them.",
		example{"concat_ws(', ', 'a', null, 'b')", "a, b"})
	describe("string", "initcap", "The first letter of each word in upper case, the others in lower case.", example{"initcap('hi THOMAS')", "Hi Thomas"})
	describe("string", "lower", "The text in lower case.", example{"lower('TOM')", "tom"})
	describe("string", "upper", "The text in upper case.", example{"upper('tom')", "TOM"})
	describe("string", "left", "The first so many characters; of a negative number all but the last so many.",
		example{"left('abcde', 2)", "ab"}, example{"left('abcde', -2)", "abc"})
	describe("string", "right", "The last so many characters; of a negative number all but the first so many.",
		example{"right('abcde', 2)", "de"}, example{"right('abcde', -2)", "cde"})
	describe("string", "lpad", "The text with characters in front until it has the length; a longer text is cut.",
		example{"lpad('hi', 5, 'xy')", "xyxhi"}, example{"lpad('hello', 3)", "hel"})
	describe("string", "rpad", "The text with characters behind until it has the length; a longer text is cut.",
		example{"rpad('hi', 5, 'xy')", "hixyx"})
	describe("string", "repeat", "The text so many times.", example{"repeat('Pg', 3)", "PgPgPg"})
	describe("string", "replace", "The text with another part wherever a part stands.", example{"replace('abcdefabcdef', 'cd', 'XX')", "abXXefabXXef"})
	describe("string", "reverse", "The characters from the last to the first.", example{"reverse('abc')", "cba"})
	describe("string", "split_part", "The part of that number between separators, from 1; negative numbers count from the end. The empty text if there is none.",
		example{"split_part('a,b,c', ',', 2)", "b"}, example{"split_part('a,b,c', ',', -1)", "c"})
	describe("string", "starts_with", "Whether the text begins with the other one.", example{"starts_with('alphabet', 'alph')", "true"})
	describe("string", "^@", "The operator of starts_with.", example{"'alphabet' ^@ 'alph'", "true"})
	describe("string", "strpos", "The place of the other text, in characters from 1; 0 if it is not there.", example{"strpos('high', 'ig')", "2"})
	describeForm("string", "position", "position(part in text)", "strpos in the words of the standard.", example{"position('om' in 'Thomas')", "3"})
	describe("string", "substr", "The characters from a place on, from 1, all or so many.",
		example{"substr('alphabet', 3)", "phabet"}, example{"substr('alphabet', 3, 2)", "ph"})
	describe("string", "substring", "As substr; also written substring(text from 2 for 3).",
		example{"substring('Thomas' from 2 for 3)", "hom"}, example{"substring('Thomas', 3)", "omas"})
	describe("binary", "substring", "The bytes from a place on, from 1.", example{`substring('\x010203'::bytea, 2, 1)`, `\x02`})
	describe("string", "translate", "The text with each character of the second text replaced by that of the same place of the third, or dropped.",
		example{"translate('12345', '143', 'ax')", "a2x5"})
	describe("hash", "md5", "The MD5 hash of a text or a byte string, in hexadecimal digits.", example{"md5('abc')", "900150983cd24fb0d6963f7d28e17f72"})

	const wild = "% stands for any characters, _ for one, a backslash or the character behind escape takes their meaning away."
	describe("pattern", "like", "Whether the whole text is like the pattern: "+wild,
		example{"'abc' like 'a%'", "true"}, example{"'abc' like '_b'", "false"}, example{"'10%' like '10#%' escape '#'", "true"})
	describe("pattern", "ilike", "As like, without a difference between upper and lower case.", example{"'ABC' ilike 'a%'", "true"})
	describe("pattern", "~~", "The operator of like.", example{"'abc' ~~ 'a%'", "true"})
	describe("pattern", "~~*", "The operator of ilike.", example{"'ABC' ~~* 'a%'", "true"})
	describe("pattern", "!~~", "The operator of not like.", example{"'abc' !~~ 'a%'", "false"})
	describe("pattern", "!~~*", "The operator of not ilike.", example{"'ABC' !~~* 'a%'", "false"})
}
