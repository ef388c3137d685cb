package operators

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow/component"
)

// windowUnit is what a width counts.
type windowUnit int

const (
	unitMicros windowUnit = iota
	unitDays
	unitWeeks
	unitMonths
	unitYears
)

// windowWidth is a parsed Width: n of a unit.
type windowWidth struct {
	n    int64
	unit windowUnit
}

const dayMicros = 24 * 60 * 60 * 1000000

// parse reads the text. Days and weeks are calendar units; without a time zone
// they are as long as in UTC.
func (w Width) parse() (windowWidth, error) {
	text := string(w)
	for _, u := range []struct {
		suffix string
		unit   windowUnit
	}{{"mo", unitMonths}, {"y", unitYears}, {"w", unitWeeks}, {"d", unitDays}} {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err == nil && (n < 1 || n > 100_000) {
			return windowWidth{}, fmt.Errorf("width %q: expected 1 to 100000 of the unit", text)
		}
		if err == nil {
			return windowWidth{n, u.unit}, nil
		}
	}
	d, err := component.ParseDuration(text)
	if _, number := strconv.ParseFloat(text, 64); err != nil && number == nil {
		return windowWidth{}, err
	}
	if err != nil {
		return windowWidth{}, fmt.Errorf("width %q: expected a number with a unit, as 500ms, 10s, 5m, 1h, or a calendar unit, as 1d, 1w, 1mo, 1y", text)
	}
	if d <= 0 || d.D()%time.Microsecond != 0 {
		return windowWidth{}, fmt.Errorf("a window needs a width of whole microseconds, as 1m, not %s", text)
	}
	return windowWidth{d.D().Microseconds(), unitMicros}, nil
}
