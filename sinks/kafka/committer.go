package kafka

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"
	"frazil/operators/expr"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// committer sends the spooled records of a commit in one transaction with the
// positions. One goroutine uses it.
type committer struct {
	env *dataflow.Env
	cfg Config
	pos *positions
	// producer is the only one of its transactional id, as far as is known; nil: one
	// must be begun, and the positions read, before anything is said or done.
	producer *kgo.Client
	names    map[string]string
	// id is that of the producer.
	id int64
	// named matches the topics that rows may go to; nil: there is one.
	named *regexp.Regexp
	// said: that open transactions cannot be asked for.
	said bool
	// at is called by tests at each step.
	at func(step string)
}

func newCommitter(_ context.Context, env *dataflow.Env, _ component.SinkIn, cfg Config) (dataflow.Committer, error) {
	pos, err := newPositions(env, cfg)
	if err != nil {
		return nil, err
	}
	return &committer{env: env, cfg: cfg, pos: pos, names: map[string]string{}, named: namesOf(expr.TemplateTexts(cfg.Topic)), at: func(string) {}}, nil
}

// transactionalID is what brokers know the producer by.
func (c *committer) transactionalID() string { return "frazil." + c.env.Pipeline + "." + c.env.Step }

// Target implements dataflow.Committer.
func (c *committer) Target() dataflow.Target { return target(c.env.Step, c.cfg) }

// Close implements dataflow.Committer. A transaction that is open is left to the next
// producer, or to the broker.
func (c *committer) Close() error {
	c.drop()
	c.pos.close()
	return nil
}

// drop gives the producer up.
func (c *committer) drop() {
	if c.producer != nil {
		c.producer.Close()
		c.producer = nil
	}
}

// begin has a producer and knows what the topic holds. Brokers end the transaction of
// the producer before, one way or the other, before they let a new one begin; and they
// fence it. So until another process begins one, what is read here stays true.
func (c *committer) begin(ctx context.Context) error {
	if c.producer != nil {
		return nil
	}
	if err := c.pos.make(ctx); err != nil {
		return err
	}
	opts := append(producerOptions(c.cfg, c.env.Memory), kgo.TransactionalID(c.transactionalID()), kgo.TransactionTimeout(c.cfg.TransactionTimeout.D()), kgo.ProducerLinger(0))
	cl, err := newClient(c.env, c.cfg, opts...)
	if err != nil {
		return err
	}
	if err := c.beginWith(ctx, cl); err != nil {
		cl.Close()
		return err
	}
	c.producer = cl
	c.at("begin")
	return nil
}

func (c *committer) beginWith(ctx context.Context, cl *kgo.Client) error {
	topics, err := c.topics(ctx)
	if err != nil {
		return err
	}
	if err := c.settle(ctx, topics); err != nil {
		return err
	}
	if c.id, _, err = cl.ProducerID(ctx); err != nil {
		return classify(fmt.Errorf("begin the producer %q: %w", c.transactionalID(), err))
	}
	if err := c.begun(ctx, c.id, topics); err != nil {
		return err
	}
	return c.pos.read(ctx)
}

// Committed implements dataflow.Committer.
func (c *committer) Committed(ctx context.Context) (dataflow.Committed, error) {
	// Others may have committed since.
	c.drop()
	if err := c.begin(ctx); err != nil {
		return dataflow.Committed{}, err
	}
	return c.pos.committed(), nil
}

// Commit implements dataflow.Committer. After an error the transaction may be
// committed or not; the next call begins another producer and looks.
func (c *committer) Commit(ctx context.Context, k dataflow.Commit) error {
	for try := 1; ; try++ {
		err := c.commit(ctx, k)
		if err == nil {
			c.sweep(k.Epoch)
			return nil
		}
		// Another process has begun a producer of its own. What it has done with it the
		// positions say.
		if !isFenced(err) || try == maxFenced {
			return fmt.Errorf("commit %s to topic %q: %w", k.Epoch, c.cfg.Topic, err)
		}
	}
}

// maxFenced bounds how often two processes take the producer from each other in one
// commit.
const maxFenced = 5

func (c *committer) commit(ctx context.Context, k dataflow.Commit) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	held := c.pos.committed()
	switch dataflow.DecideCommit(held, k) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		c.drop() // The other process may move it on, or stand still: look again next time.
		return fmt.Errorf("topic %s holds %s, expected %s: %w", c.cfg.PositionsTopic, held.Positions, k.From, dataflow.ErrFenced)
	}
	next := record{
		Positions: dataflow.MergePositions(held.Positions, k.At), Start: dataflow.MergePositions(held.Start, k.Start), Plan: k.Plan,
		Watermarks: k.Watermarks, Claim: held.Claim, Commits: k.After(held.Commits), Epoch: k.Epoch, Rows: k.Rows(), Late: k.Late,
	}
	return c.publish(ctx, k.Parts, next, k.Clock)
}

// sweep removes what is committed. Files that stay cost room and nothing else.
func (c *committer) sweep(e dataflow.Epoch) {
	if err := spool.Sweep(c.env, e); err != nil {
		c.env.Log.Warn("committed rows could not be removed from the spool; the next commit tries again", "error", err)
	}
}

// Claim implements dataflow.Claimer.
func (c *committer) Claim(ctx context.Context, claim dataflow.Claim) error {
	c.drop()
	if err := c.begin(ctx); err != nil {
		return err
	}
	held := c.pos.committed()
	switch dataflow.DecideClaim(held.Claim, claim) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		return fmt.Errorf("claim %d of topic %q: %w", claim.Token, c.cfg.Topic, dataflow.ErrFenced)
	}
	next := record{Plan: held.Plan, Claim: claim}
	if c.pos.held != nil {
		next = *c.pos.held
		next.Claim = claim
	}
	return c.publish(ctx, nil, next, nil)
}

// publish sends the records of parts and puts next in the place of what is held, all or
// nothing. Whoever has begun another producer meanwhile makes it fail.
func (c *committer) publish(ctx context.Context, parts []dataflow.Part, next record, clock []dataflow.ClockDecision) error {
	next.Time = c.pos.now().UTC().Format(time.RFC3339Nano)
	own, err := c.pos.records(next, clock)
	if err != nil {
		return dataflow.Permanent(err)
	}
	if err := c.transaction(ctx, parts, own); err != nil {
		c.drop()
		return err
	}
	c.pos.apply(next, clock, own[len(own)-1].Offset+1)
	return nil
}

// transaction sends the records of parts and our own in one transaction.
func (c *committer) transaction(ctx context.Context, parts []dataflow.Part, own []*kgo.Record) error {
	if err := c.producer.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	sent := &outcome{written: kadm.TopicsSet{}}
	err := spool.Each(c.env, parts, c.send(ctx, sent))
	for _, r := range own {
		if err == nil {
			c.producer.Produce(ctx, r, sent.record)
		}
	}
	if flushed := c.producer.Flush(ctx); err == nil {
		err = flushed
	}
	if first := sent.first(); first != nil {
		err = first
	}
	c.at("end")
	if err != nil {
		// Nothing of it may be committed. The next producer ends it.
		return err
	}
	if err := c.producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return classify(fmt.Errorf("end the transaction: %w", err))
	}
	if err := c.ended(ctx, c.id, sent.written); err != nil {
		return fmt.Errorf("see the transaction end: %w", err)
	}
	c.at("ended")
	return nil
}

// send returns what sends one spooled record after the other.
func (c *committer) send(ctx context.Context, sent *outcome) func([]byte) error {
	var slab []kgo.Record
	return func(b []byte) error {
		if len(slab) == 0 {
			slab = make([]kgo.Record, 256)
		}
		rec := &slab[0]
		slab = slab[1:]
		if err := (&reader{b: b}).record(rec, c.names); err != nil {
			return dataflow.Permanent(err)
		}
		c.producer.Produce(ctx, rec, sent.record)
		return ctx.Err()
	}
}

// outcome is what became of records that were sent.
type outcome struct {
	mu  sync.Mutex
	err error
	// written are the partitions that have some of them, with the newest one.
	written   kadm.TopicsSet
	topic     string
	partition int32
}

func (o *outcome) record(r *kgo.Record, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		if r.Partition != o.partition || r.Topic != o.topic {
			o.topic, o.partition = r.Topic, r.Partition
			o.written.Add(r.Topic, r.Partition)
		}
		return
	}
	if o.err == nil || errors.Is(o.err, context.Canceled) {
		o.err = classify(fmt.Errorf("send to partition %d of topic %q: %w", r.Partition, r.Topic, err))
	}
}

func (o *outcome) first() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

var _ dataflow.Claimer = (*committer)(nil)
