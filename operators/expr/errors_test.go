package expr

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// errorTexts are wrong in one way each. Texts that start with "agg " are read as
// aggregates.
var errorTexts = []string{
	"", "   ", "price >", "price > > 1", "(price", "price)", "pricee > 1", "zzzzzz", "_time > 1", "_watermark",
	"price > 'abc'", "price = channel", "channel > 1", "ts > '2024-13-01'", "ts > 'yesterday'", "price and ok",
	"not price", "uper(channel)", "upper(price)", "upper(channel, 'x')", "foo(1)", "price + channel", "price + 'x'",
	"-channel", "case when price then 1 end", "case when ok then 1 else 'x' end", "case when ok then 1 else channel end",
	"case end", "coalesce()", "coalesce(price, ok)", "nullif(1)", "price::money", "price::foo", "price::decimal(40,2)",
	"price::decimal(2,3)", "price::date", "1/0", "9223372036854775808::bigint", "'x'::int", "99999999999999999999999999999999999999999",
	"price in ()", "price in (1, 'x')", "price between 1", "price is 5", "a < b < c", "1 < 2 < 3", "now()", "current_timestamp",
	"sum(price)", "count(*)", "'unclosed", "\"unclosed", "/* open", "price ? 1", "price ~ 'x'", "price[1]", "array[array[1]]", "array[]", "array[1, 'x']", "1 = any(2)", "price = all(array['x'])", "array_append(price, 1)",
	"price.x", "select", "price ## 1", "1a", "price as x", "x'1'", "extract(year ts)", "extract(foo from ts)",
	"channel similar to 'a' escape 'xy'", "concat(price", "cast(price int)", "amount * amount * 0.00000000000000000000000000000000000001",
	"price = 1 or", "substring(channel from '(a.c')", "channel ~ '(?=a)b'", "channel ~ '(a)\\1'", "date '2024-02-30'", "interval 'x'", "uuid '1'", "price over (x)",
	"lpad(channel, 'x', 'y')", "e'\\u12'", "price > 1;", "upper('x', null, 3)", "agg price", "agg sum(channel)", "agg sum(*)", "agg median(price)",
	"agg summ(price)", "agg stddev(channel)", "agg first_value(price)", "agg array_agg(distinct price order by qty)", "agg string_agg(channel)", "agg string_agg(channel, channel)",
	"agg percentile_cont(1.5) within group (order by price)", "agg percentile_cont(qty) within group (order by price)", "agg percentile_cont(0.5)", "agg mode(price)", "agg sum(price) within group (order by qty)",
	"agg mode() within group (order by price, qty)", "agg array_agg(price order qty)", "agg corr(price, qty)", "agg count(*) filter (where price)",
	"agg sum(price) + 1", "agg sum(price, qty)", "agg min(ok)", "agg avg(nope)", "agg sum(price) filter (price > 1)", "agg upper(channel)",
}

func TestErrorsPointIntoTheText(t *testing.T) {
	var b strings.Builder
	for _, text := range errorTexts {
		var err error
		body, agg := strings.CutPrefix(text, "agg ")
		if agg {
			_, err = ParseAggregate(body, testSchema)
		} else {
			_, err = Compile(text, testSchema)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: expected an *Error, got %v", text, err)
			continue
		}
		if e.Offset < 0 || e.Offset > len(body) {
			t.Errorf("%q: offset %d is outside of the text", text, e.Offset)
		}
		fmt.Fprintf(&b, "%s\n%s^ %s\n\n", body, strings.Repeat(" ", e.Offset), e.Msg)
	}
	const file = "testdata/errors.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("line %d\n got %s\nwant %s", i+1, g[i], w[i])
			}
		}
		t.Error("messages changed: run with -rewrite and read the difference")
	}
}
