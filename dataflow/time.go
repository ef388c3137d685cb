package dataflow

import (
	"fmt"
	"math"
	"time"
)

// Time is an event time in microseconds since 1970-01-01T00:00:00Z.
type Time int64

const (
	// MinTime is before every event time: the watermark of a split that has
	// not delivered a row.
	MinTime Time = math.MinInt64
	// MaxTime is after every event time: the watermark of a drained source.
	MaxTime Time = math.MaxInt64
)

// Event times outside the years 1 to 9999 are refused as bad rows.
const (
	MinEventTime Time = -62135596800000000 // 0001-01-01T00:00:00Z
	MaxEventTime Time = 253402300799999999 // 9999-12-31T23:59:59.999999Z
)

// TimeOf converts t, cutting below microseconds.
func TimeOf(t time.Time) Time { return Time(t.UnixMicro()) }

// String formats t as RFC 3339 with microseconds, or "-inf" and "+inf".
func (t Time) String() string {
	switch t {
	case MinTime:
		return "-inf"
	case MaxTime:
		return "+inf"
	}
	return time.UnixMicro(int64(t)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// Sub returns t less d, staying at MinTime and MaxTime, never wrapping.
func (t Time) Sub(d time.Duration) Time {
	if t == MinTime || t == MaxTime {
		return t
	}
	r := t - Time(d.Microseconds())
	if d > 0 && r > t {
		return MinTime
	}
	if d < 0 && r < t {
		return MaxTime
	}
	return r
}

// Add returns t plus d with the same care as Sub.
func (t Time) Add(d time.Duration) Time { return t.Sub(-d) }

// Epoch numbers checkpoints: 1, 2, 3, ... It is never a time and never reused.
type Epoch uint64

// String formats e for messages.
func (e Epoch) String() string { return fmt.Sprintf("epoch %d", uint64(e)) }
