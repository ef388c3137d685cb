package expr

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// FuzzCompile: no text makes the parser, the checker or an evaluation panic;
// errors point into the text; what compiles also compiles from its canonical
// form, which is stable.
func FuzzCompile(f *testing.F) {
	for _, s := range errorTexts {
		f.Add(s)
	}
	for _, s := range []string{
		"price > 1000 and channel = 'x'", "case qty when 1 then 'a' else upper(channel) end", "a.b.c", "not not ok is not true",
		"price between symmetric 1 and 2", "ts + interval '1 day' at time zone 'UTC'", "price in (1, 2, null) or qty not in (3)",
		"channel like '%a_' escape '!'", "extract(epoch from ts)", "trim(both 'x' from channel)", "E'\\x41' || e'\\n'",
		"round(amount / 3, 2)::decimal(10,2)", "greatest(price, qty, 2.5)", "-(-9223372036854775808)", "repeat(channel, 100)",
		"channel ~ '^(a|ab)*?[^[:alpha:]\\w]{2,3}\\y$'", "channel !~* channel", "regexp_replace(channel, '(.)(b)?', '\\2\\1', 'g')", "channel not similar to '%(x|y)_' escape '#'",
		"substring(channel similar 'a#\"_#\"%' escape '#')", "regexp_instr(channel, 'x', 2, 1, 1, 'i', 0)", "regexp_split_to_array(channel, qty::string)",
		"power(amount, qty) + ln(price) - |/ temp ^ 2", "~ price & 7 # 3 << qty", "width_bucket(temp, 0, 10, qty)", "factorial(qty) / gcd(price, 12)", "sind(temp) * atan2d(temp, 1)",
		"overlay(channel placing 'x' from qty for 2)", "channel is not nfd normalized", "normalize(channel, NFKC)", "unistr(channel || '\\0041')", "format('%2$*1$s|%I|%L', qty, channel, price)",
		"encode(sha256(channel::binary), 'base64')", "convert_from(decode(channel, 'hex'), 'utf8')", "set_bit(channel::binary, price, qty)", "quote_nullable(amount) || quote_ident(channel)",
		"temp is distinct from null", "array[qty, 1][1:2] @> '{1}'", "'{\"a\": [1]}'::jsonb -> 'a' ->> 0", "qty = any(array[1, null])", "(price, qty) < (1, 2)",
		"channel ~ '^a(b|c)+$' and regexp_replace(channel, '(.)', '\\1x', 'g') <> ''", "overlay(channel placing 'x' from 2 for 1)", "interval '5' minute * qty",
		"make_interval(days => qty)", "position('x' in channel)::smallint", "to_char(ts, 'YYYY-MM-DD')", "format('%s-%s', qty, price)", "width_bucket(temp, 0, 10, 5)", "substring(channel from 2 for 3)", "date_trunc('day', ts, 'Europe/Berlin')", "1e37 * amount",
	} {
		f.Add(s)
	}
	alloc := memory.DefaultAllocator
	b := testBatch(f, alloc, `[
		{"price": 1500, "channel": "x", "qty": 3, "temp": 1.5, "amount": "10.25", "ok": true, "ts": "2024-02-29T12:00:00Z", "_time": 1},
		{"price": null, "channel": null, "qty": null, "temp": null, "amount": null, "ok": null, "ts": null, "_time": 3}]`)
	defer b.Release()
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text, testSchema)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) {
				t.Fatalf("%q: error without a place: %v", text, err)
			}
			return
		}
		again, err := Compile(e.String(), testSchema)
		if err != nil {
			t.Fatalf("%q: canonical form %q does not compile: %v", text, e, err)
		}
		if again.String() != e.String() {
			t.Fatalf("%q: canonical form %q becomes %q", text, e, again)
		}
		a, bad, err := e.NewEvaluator(alloc).Eval(b)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		defer a.Release()
		if a.Len() != int(b.NumRows()) {
			t.Fatalf("%q: %d values for %d rows", text, a.Len(), b.NumRows())
		}
		a2, bad2, err := again.NewEvaluator(alloc).Eval(b)
		if err != nil {
			t.Fatalf("%q: canonical form %q: %v", text, e, err)
		}
		defer a2.Release()
		if e.TypeText() != again.TypeText() || len(bad) != len(bad2) {
			t.Fatalf("%q is %s and fails in %d rows, its canonical form %q is %s and fails in %d", text, e.TypeText(), len(bad), e, again.TypeText(), len(bad2))
		}
		for i := range a.Len() {
			if x, y := string(AppendText(nil, a, i)), string(AppendText(nil, a2, i)); x != y {
				t.Fatalf("%q: row %d is %s, of its canonical form %q %s", text, i, x, e, y)
			}
		}
	})
}
