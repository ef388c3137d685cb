package expr

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// The canonical form of what has a syntax of its own means the same.
func TestFormsOfTimesReadBack(t *testing.T) {
	schema := arrow.NewSchema(nil, nil)
	for text, want := range map[string]string{
		"make_interval(1, days => 10, secs := 1.5)":                                                 "make_interval(1, days => 10, secs => 1.5)",
		"not (date '2024-01-01', interval '1 day') overlaps (date '2024-01-01', date '2024-02-01')": "(not overlaps(date '2024-01-01', interval '1 day', date '2024-01-01', date '2024-02-01'))",
		"interval '90' minute":                                "interval minute '90'",
		"interval '1-2' year to month":                        "interval month '1-2'",
		"interval(3) '1.23456'":                               "interval second(3) '1.23456'",
		"'1:30'::interval minute to second(1)":                "cast('1:30' as interval minute to second(1))",
		"timestamp(3) '2024-01-01' at time zone 'UTC'":        "timezone('UTC', timestamp(3) '2024-01-01')",
		"extract(hour from timestamp with time zone 'epoch')": "extract('hour' from timestamptz 'epoch')",
	} {
		e, err := Compile(text, schema)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := Compile(e.String(), schema)
		if err != nil {
			t.Errorf("%s: %v", e, err)
			continue
		}
		if e.String() != want || again.String() != want {
			t.Errorf("%s: %s, again %s, expected %s", text, e, again, want)
		}
	}
}

func TestFormsOfTimesThatAreRefused(t *testing.T) {
	schema := arrow.NewSchema(nil, nil)
	for text, want := range map[string]string{
		"current_timestamp(3)":             "current_timestamp() reads the clock",
		"localtime":                        "localtime reads the clock",
		"age(timestamp '2024-01-01')":      "age with one operand reads the clock",
		"'today'::date":                    `the date "today" reads the clock`,
		"make_interval(day => 1)":          `make_interval has no operand "day"; did you mean "days"?`,
		"make_interval(1, years => 2)":     `operand "years" of make_interval is given twice`,
		"make_interval(days => 1, 2)":      "an operand without a name stands behind one with a name",
		"make_date(year => 1, day => 2)":   `make_date needs the operand "month"`,
		"lower(x => 'a')":                  "lower takes no operands by name",
		"interval '1' year to day":         "an interval has no fields year to day",
		"'1'::interval(7)":                 "interval(7): the precision is at most 6",
		"(1, 2) overlaps 3":                "overlaps needs two periods",
		"extract(hour from date '-1-1-1')": "invalid input for date",
	} {
		if _, err := Compile(text, schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
	if _, err := ParseAggregate("sum(x => 1)", schema); err == nil || err.Error() != "sum takes no operands by name" {
		t.Errorf("sum(x => 1): %v", err)
	}
}
