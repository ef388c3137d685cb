package component

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time with a unit in its text: 500ms, 10s, 5m, 1h, 7d.
// "off" is 0 where a component allows it.
type Duration time.Duration

// D returns it as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes it as the file would.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	t := time.Duration(d)
	if t%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(t/(24*time.Hour)), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseDuration reads a duration with a unit.
func ParseDuration(text string) (Duration, error) {
	if text == "off" || text == "0" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return Duration(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("duration %q has no unit: write %q", text, text+"s")
	}
	t, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q: expected a number with a unit, as 10s, 500ms, 5m, 1h or 7d", text)
	}
	if t < 0 {
		return 0, fmt.Errorf("duration %q is negative", text)
	}
	return Duration(t), nil
}

// Bytes is a size with a unit in its text: 64KiB, 256MiB, 1GiB, 10MB.
type Bytes int64

var byteUnits = []struct {
	name string
	n    int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseBytes reads a size with a unit.
func ParseBytes(text string) (Bytes, error) {
	for _, u := range byteUnits {
		num, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || f < 0 || f*float64(u.n) > 1<<62 {
			continue
		}
		return Bytes(f * float64(u.n)), nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("size %q has no unit: write %q", text, text+"MiB")
	}
	return 0, fmt.Errorf("size %q: expected a number with a unit, as 64KiB, 256MiB or 1GiB", text)
}

// String writes it with the largest unit that divides it.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.n == 0 {
			return strconv.FormatInt(int64(b)/u.n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// NamedExpr is one entry of an ordered map from names to expression texts, as
// in compute and aggregate. Its order in the file is kept.
type NamedExpr struct {
	Name string
	Expr string
}

// NamedExprs is such a map. In YAML: {x: expr, y: expr}.
type NamedExprs []NamedExpr

// NamedType is one entry of an ordered map from column names to types, as in
// the schema of a decode block.
type NamedType struct {
	Name string
	// Type is the text of a type, as dataflow.ParseType reads it.
	Type string
}

// NamedTypes is such a map; its order in the file is the order of the columns.
// In YAML: {device: string, ts: timestamptz(ms)}.
type NamedTypes []NamedType
