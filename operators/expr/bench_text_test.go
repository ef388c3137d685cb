package expr

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func BenchmarkTexts(b *testing.B) {
	for _, text := range []string{
		`url ~ 'query=[0-9]*7$'`, `channel ~* '^(apple|google|facebook|baidu)$'`,
		`regexp_replace(url, '^https?://([^/]*)/.*$', '\1')`, `substring(url from 'query=(\d+)')`,
		`lower(split_part(url, '/', 3)) || '/' || coalesce(nullif(channel, 'x'), 'none') || lpad(price::string, 8, '0')`,
		`encode(sha256(convert_to(url, 'UTF8')), 'hex')`, `format('%s: %s', channel, price)`,
		`power(temp, 0.5) + ln(temp + 1)`, `sqrt(price::decimal(20,2))`, `auction # price & 255`,
	} {
		b.Run(text, func(b *testing.B) { benchRows(b, text, benchBatch(8192)) })
	}
	for _, n := range []int{1024, 65536} {
		b.Run(fmt.Sprintf("regex/rows=%d", n), func(b *testing.B) { benchRows(b, `url ~ 'query=[0-9]*7$'`, benchBatch(n)) })
	}
}

// BenchmarkGoRegexp is what Go's regexp takes for the first of BenchmarkTexts.
func BenchmarkGoRegexp(b *testing.B) {
	const n = 8192
	batch := benchBatch(n)
	defer batch.Release()
	urls := batch.Column(3).(*array.String)
	re := regexp.MustCompile("(?s)query=[0-9]*7$")
	hits := 0
	for b.Loop() {
		for i := range n {
			if re.MatchString(urls.Value(i)) {
				hits++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}

// TestTextsAllocateNothingPerRow holds kernels of texts to memory of the batch.
func TestTextsAllocateNothingPerRow(t *testing.T) {
	batch := benchBatch(4096)
	defer batch.Release()
	for _, text := range []string{
		`url ~ 'query=[0-9]*7$'`, `channel ~* channel`, `regexp_replace(url, '^https?://([^/]*)/.*$', '\1')`,
		`substring(url from 'query=(\d+)')`, `regexp_count(url, '\w+')`, `url similar to '%(7|8)'`,
		`lower(split_part(url, '/', 3)) || '/' || coalesce(nullif(channel, 'x'), 'none') || lpad(price::string, 8, '0')`,
		`overlay(url placing 'http' from 1 for 5)`, `encode(convert_to(url, 'UTF8'), 'hex')`, `to_hex(auction) || quote_literal(price)`,
		`power(temp, 0.5::float8) + sind(temp)`, `auction # price & 255`, `url is normalized`, `format('%s: %5s', channel, price)`,
	} {
		e, err := Compile(text, batch.Schema())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		ev := e.NewEvaluator(memory.DefaultAllocator)
		got := testing.AllocsPerRun(5, func() {
			a, _, err := ev.Eval(batch)
			if err != nil {
				t.Fatal(err)
			}
			a.Release()
		})
		if got > 200 {
			t.Errorf("%s: %v allocations for 4096 rows", text, got)
		}
	}
}
