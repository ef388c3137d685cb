package kafka

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A transaction of Kafka ends in two steps: its coordinator decides, and then a marker in
// each partition says so to its readers. Brokers that are killed between the two write the
// markers when they start again. Not always: a partition that has no leader just then, since
// all its replicas are starting, may be taken for one that was deleted, and left out (Kafka
// 4.4: "Couldn't find leader endpoint for partitions ..., these partitions are likely deleted
// already and hence can be skipped"). There the transaction stays open: readers wait for it,
// and the next transaction of the same producer that ends decides about its records,
// whichever way it ends.
//
// So a transaction counts as ended when the partitions say so (ended), and before a producer
// begins, what was left out of the last transaction is made up for (settle).

// settleWithin bounds how long markers are waited for.
const settleWithin = 20 * time.Second

// settle writes the markers of the last transaction that are missing in partitions. The producer of it
// must not have been followed by another yet: with that the coordinator forgets how it ended.
func (c *committer) settle(ctx context.Context, in kadm.TopicsSet) error {
	last, err := c.lastTransaction(ctx)
	if err != nil || !strings.HasPrefix(last.State, "Complete") {
		return err
	}
	open, err := c.openBy(ctx, last.ProducerID, in)
	if err != nil {
		return err
	}
	commit := last.State == "CompleteCommit"
	for _, d := range open {
		// A transaction that ends raises the epoch by one. What is of another epoch is
		// not of this transaction.
		if d.ProducerEpoch+1 != last.ProducerEpoch {
			continue
		}
		c.env.Log.Warn("a broker has left out a partition at the end of a transaction; it is made up for",
			"topic", d.Topic, "partition", d.Partition, "from", d.CurrentTxnStartOffset, "committed", commit)
		set := kadm.TopicsSet{}
		set.Add(d.Topic, d.Partition)
		all, err := c.pos.admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{
			ProducerID: d.ProducerID, ProducerEpoch: last.ProducerEpoch, CoordinatorEpoch: d.CoordinatorEpoch, Commit: commit, Topics: set,
		})
		all.EachPartition(func(p kadm.TxnMarkersPartitionResponse) { err = errors.Join(err, p.Err) })
		if err != nil {
			return classify(fmt.Errorf("%w: end it (the user of the sink needs ALTER on the cluster for that): %w", c.leftOpen(d), err))
		}
	}
	return nil
}

// begun fails if transactions of producers before the one with this id are still open.
func (c *committer) begun(ctx context.Context, id int64, in kadm.TopicsSet) error {
	open, err := c.openBy(ctx, id, in)
	if err != nil || len(open) == 0 {
		return err
	}
	return dataflow.Unavailable(fmt.Errorf("%w, and no longer knows whether it was committed. Look at its rows and at topic %q, and end it: kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d --start-offset %d",
		c.leftOpen(open[0]), c.cfg.PositionsTopic, c.cfg.Brokers[0], open[0].Topic, open[0].Partition, open[0].CurrentTxnStartOffset))
}

func (c *committer) leftOpen(d kadm.DescribedProducer) error {
	return fmt.Errorf("the broker has left a transaction of %q open in partition %d of topic %q from offset %d on", c.transactionalID(), d.Partition, d.Topic, d.CurrentTxnStartOffset)
}

// ended waits until the partitions that a transaction wrote to say that it has ended.
func (c *committer) ended(ctx context.Context, id int64, written kadm.TopicsSet) error {
	began := time.Now()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		open, err := c.openBy(ctx, id, written)
		if err != nil || len(open) == 0 {
			return err
		}
		if time.Since(began) > settleWithin {
			return dataflow.Unavailable(c.leftOpen(open[0]))
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// lastTransaction is what the coordinator knows of our last transaction, when it has done
// with it what it does; with no state if there was none.
func (c *committer) lastTransaction(ctx context.Context) (kadm.DescribedTransaction, error) {
	began := time.Now()
	for {
		all, err := c.pos.admin.DescribeTransactions(ctx, c.transactionalID())
		t := all[c.transactionalID()]
		if err == nil {
			err = t.Err
		}
		switch {
		case errors.Is(err, kerr.TransactionalIDNotFound) || c.unable(err):
			return kadm.DescribedTransaction{}, nil
		case isSoon(err) && time.Since(began) < settleWithin:
		case err != nil:
			return t, classify(fmt.Errorf("ask for the last transaction of %q: %w", c.transactionalID(), err))
		case !strings.HasPrefix(t.State, "Prepare"):
			return t, nil
		case time.Since(began) > settleWithin:
			return t, dataflow.Unavailable(fmt.Errorf("the last transaction of %q does not end: it is in state %s", c.transactionalID(), t.State))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return t, err
		}
	}
}

// isSoon says whether err is that of a coordinator that has just been, or is being, found.
func isSoon(err error) bool {
	for _, e := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// openBy are the transactions of the producer with this id that partitions hold open,
// sorted.
func (c *committer) openBy(ctx context.Context, id int64, in kadm.TopicsSet) ([]kadm.DescribedProducer, error) {
	if len(in) == 0 {
		return nil, nil // To ask for none is to ask for all.
	}
	all, err := c.pos.admin.DescribeProducers(ctx, in)
	var out []kadm.DescribedProducer
	for _, t := range all {
		for _, p := range t.Partitions {
			// One that is gone has nothing open.
			if p.Err != nil && !errors.Is(p.Err, kerr.UnknownTopicOrPartition) {
				err = errors.Join(err, p.Err)
			}
			if d, ok := p.ActiveProducers[id]; ok && d.CurrentTxnStartOffset >= 0 {
				out = append(out, d)
			}
		}
	}
	if c.unable(err) {
		return nil, nil
	}
	slices.SortFunc(out, func(a, b kadm.DescribedProducer) int {
		if n := strings.Compare(a.Topic, b.Topic); n != 0 {
			return n
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out, classify(err)
}

// unable says whether err means that what is open cannot be asked for here; that is said
// once.
func (c *committer) unable(err error) bool {
	if err == nil {
		return false
	}
	var denied *kadm.AuthError
	if !errors.Is(err, kerr.UnsupportedVersion) && !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.As(err, &denied) {
		return false
	}
	if !c.said {
		c.said = true
		c.env.Log.Warn("it cannot be asked which transactions are open; one that a broker leaves open after a crash will not be found (the user of the sink needs READ on its topics, and brokers of 3.0 or newer)", "error", err)
	}
	return true
}

// topics are those that the sink may have written to, with all their partitions.
func (c *committer) topics(ctx context.Context) (kadm.TopicsSet, error) {
	var only []string
	if c.named == nil {
		only = []string{c.cfg.Topic, c.cfg.PositionsTopic}
	}
	all, err := c.pos.admin.ListTopics(ctx, only...)
	if err != nil {
		return nil, classify(fmt.Errorf("ask for the topics: %w", err))
	}
	set := kadm.TopicsSet{}
	for name, t := range all {
		if c.named != nil && name != c.cfg.PositionsTopic && !c.named.MatchString(name) {
			continue
		}
		for p := range t.Partitions {
			set.Add(name, p)
		}
	}
	return set, nil
}

// namesOf matches the names that a template of a topic may give; nil: it is a name.
func namesOf(texts []string) *regexp.Regexp {
	if len(texts) == 1 {
		return nil
	}
	var quoted []string
	for _, t := range texts {
		quoted = append(quoted, regexp.QuoteMeta(t))
	}
	return regexp.MustCompile("^" + strings.Join(quoted, ".*") + "$")
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
