package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"

	"github.com/twmb/franz-go/pkg/kgo"
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

// Another pipeline's transaction that is open holds back what is behind it: that is said,
// with who it is, and is waited for; and a topic of more than one fetch is read whole.
func TestATransactionThatIsOpenIsWaitedFor(t *testing.T) {
	p := newPlace(t)
	p.cfg.PositionsTopic += "." + p.env.Pipeline
	ours := p.committer()
	_, err := ours.Committed(t.Context())
	must(t, err)
	other, err := newClient(p.env, p.cfg, kgo.TransactionalID("other."+p.env.Pipeline), kgo.DefaultProduceTopic(p.cfg.PositionsTopic))
	must(t, err)
	defer other.Close()
	var foreign []*kgo.Record
	for i := range 3000 {
		foreign = append(foreign, &kgo.Record{
			Key: fmt.Appendf(nil, `{"pipeline":"other","sink":"s%d"}`, i), Value: []byte(strings.Repeat(" ", 1<<10)),
		})
	}
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		must(t, other.BeginTransaction())
		must(t, other.ProduceSync(t.Context(), foreign...).FirstErr())
		ours.pos.openFor = time.Millisecond
		_, err = ours.Committed(t.Context())
		if !errors.Is(err, dataflow.ErrUnavailable) {
			t.Fatalf("while a transaction is open: %v", err)
		}
		for _, want := range []string{"is held back at offset", "producer ", "kafka-transactions.sh"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: it does not say %q", err, want)
			}
		}
		must(t, other.EndTransaction(t.Context(), end))
		ours.pos.openFor = time.Minute
		_, err = ours.Committed(t.Context())
		must(t, err)
	}
	w := p.writer(idStream())
	_, err = w.Write(t.Context(), ids(t, 0, 3))
	must(t, err)
	must(t, ours.Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 3)))
	held, err := p.committer().Committed(t.Context())
	must(t, err)
	if held.Positions.String() != flowtest.Place(3).String() {
		t.Errorf("another process reads %s, want %s", held.Positions, flowtest.Place(3))
	}
}
