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
		"temp is distinct from null", "substring(channel from 2 for 3)", "date_trunc('day', ts, 'Europe/Berlin')", "1e37 * amount",
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
		a, _, err := e.NewEvaluator(alloc).Eval(b)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if a.Len() != int(b.NumRows()) {
			t.Fatalf("%q: %d values for %d rows", text, a.Len(), b.NumRows())
		}
		a.Release()
	})
}
