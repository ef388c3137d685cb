package expr

import "math"

// An interval type may name fields, as interval day to second(3): the smallest one is kept
// in the type's p, digits behind the second in its s, plus one; 0 is neither. Values are cut
// to the smallest field; a bare number in a text is of that field.
const (
	fieldYear = iota + 1
	fieldMonth
	fieldDay
	fieldHour
	fieldMinute
	fieldSecond
	fieldMinuteSecond // minute to second: 1:30 is a minute and a half
)

var intervalFields = map[string]int32{
	"year": fieldYear, "month": fieldMonth, "day": fieldDay, "hour": fieldHour, "minute": fieldMinute, "second": fieldSecond,
}

func init() {
	registerCast(kInterval, kInterval, implicitCast, false, func(c *call, out *vec, a []*vec) {
		t := c.node.typ
		mapRows(c, out, a[0], t.cutInterval)
	})
	describeForm("date/time", "interval", "interval 'text' [year | month | day | hour | minute | second [(digits)]] [to month | to hour | to minute | to second [(digits)]]",
		"An interval, cut to the smallest field; a bare number in the text is of that field.",
		example{"interval '90' minute", "01:30:00"}, example{"interval '1-2' year to month", "1 year 2 mons"}, example{"interval '3 days 04:05:06' day to hour", "3 days 04:00:00"})
}

// intervalFieldsOf reads the fields behind the word interval, or behind its text.
func (p *parser) intervalFieldsOf(t *typ) error {
	first := p.peek()
	from, ok := intervalFields[first.text]
	if first.kind != tokIdent || !ok {
		return p.intervalDigits(t)
	}
	p.i++
	t.p = from
	if p.isWord(0, "to") {
		p.i++
		last := p.take()
		to, ok := intervalFields[last.text]
		if last.kind != tokIdent || !ok || to <= from || from == fieldMonth || from == fieldYear && to != fieldMonth {
			return errAt(last.pos, "an interval has no fields %s to %s", first.text, last.text)
		}
		t.p = to
		if from == fieldMinute {
			t.p = fieldMinuteSecond
		}
	}
	if t.p >= fieldSecond {
		return p.intervalDigits(t)
	}
	return nil
}

// intervalDigits reads the digits behind the second, (3).
func (p *parser) intervalDigits(t *typ) error {
	if n := p.peek(); n.kind != tokOp || n.text != "(" {
		return nil
	}
	pos := p.peek().pos
	p.i++
	n, err := p.number()
	if err != nil {
		return err
	}
	if n > 6 {
		return errAt(pos, "interval(%d): the precision is at most 6, microseconds", n)
	}
	if t.p == 0 {
		t.p = fieldSecond
	}
	t.s = int32(n) + 1
	return p.needOp(")")
}

// fieldWords are the fields of t as they are written.
func (t typ) fieldWords() string {
	digits := ""
	if t.s > 0 {
		digits = "(" + string(rune('0'+t.s-1)) + ")"
	}
	switch t.p {
	case fieldMinuteSecond:
		return " minute to second" + digits
	case fieldSecond:
		return " second" + digits
	case 0:
		return ""
	}
	return " " + [...]string{"year", "month", "day", "hour", "minute"}[t.p-1]
}

// cutInterval drops what is smaller than the smallest field of t.
func (t typ) cutInterval(v interval) interval {
	switch t.p {
	case fieldYear:
		return interval{months: v.months / 12 * 12}
	case fieldMonth:
		return interval{months: v.months}
	case fieldDay:
		return interval{months: v.months, days: v.days}
	case fieldHour:
		v.us -= v.us % hourUS
	case fieldMinute:
		v.us -= v.us % minUS
	default:
		if r := (typ{p: t.s}).roundTime(v.us); t.s > 0 && v.us < math.MaxInt64-secUS && v.us > math.MinInt64+secUS {
			v.us = r
		}
	}
	return v
}

// bareUnit is what a number without a unit means in a text of t.
func (t typ) bareUnit() intervalUnit {
	switch t.p {
	case fieldYear:
		return intervalUnit{months: 12}
	case fieldMonth:
		return intervalUnit{months: 1}
	case fieldDay:
		return intervalUnit{days: 1}
	case fieldHour:
		return intervalUnit{us: hourUS}
	case fieldMinute:
		return intervalUnit{us: minUS}
	}
	return intervalUnit{us: secUS}
}
