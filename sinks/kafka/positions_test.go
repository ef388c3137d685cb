package kafka

import (
	"errors"
	"testing"
	"time"

	"frazil/dataflow"
)

// A broker that has just started again may say that the topic ends earlier than it does:
// it is asked again, and what it holds up to there is not taken for what was committed
// last. A topic that stays short has lost records.
func TestATopicThatEndsTooEarlyIsAskedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &positions{now: func() time.Time { return now }, next: 4}
	p.apply(record{}, nil, 9)
	for i, c := range []struct {
		end   int64
		after time.Duration
		want  error
	}{
		{9, 0, nil}, {8, 0, dataflow.ErrUnavailable}, {3, shortFor - 1, dataflow.ErrUnavailable}, {12, 0, nil},
		{8, shortFor, dataflow.ErrUnavailable}, {8, shortFor, dataflow.ErrPermanent},
	} {
		now = now.Add(c.after)
		if err := p.isWhole(c.end); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d: the topic ends at %d: %v, want %v", i, c.end, err, c.want)
		}
	}
}
