package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/component"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// source reads the partitions assigned to it. Assign, Unassign and Poll come
// from one goroutine, which owns everything below "poll" here; the watcher
// answers through mailboxes.
type source struct {
	cfg    Config
	env    *dataflow.Env
	client *kgo.Client
	admin  *kadm.Client
	dials  *dialErrors
	slabs  *slabs
	gens   gens

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	closed sync.Once
	wait   sync.WaitGroup

	trouble   troubles
	woken     atomic.Bool // something that was missing is there
	watch     watcher
	interrupt atomic.Pointer[context.CancelFunc] // ends the fetch that Poll waits in

	// poll is held by Poll, and by Close once no Poll runs.
	poll struct {
		sync.Mutex
		rows     *rows
		splits   []*split // in the order of turns
		byName   map[dataflow.Split]*split
		turn     int
		buffered int64 // bytes of records that wait in queues of splits not paused
		seq      uint64
		failed   error // what ends the source with the next Poll
		ticks    int
		checks   int // looks at quiet splits that are not answered yet
		done     bool
	}
}

// split is one partition that is read.
type split struct {
	name      dataflow.Split
	topic     string
	partition int32
	// seq tells assignments of one split apart: answers to an older one are
	// dropped.
	seq uint64

	state state
	// pos is what Poll has told: where reading goes on.
	pos position
	// until bounds the split; nil: for ever.
	until *position

	queue []fetched
	// next is the offset after the last record in the queue, or pos's.
	next int64
	// end is the last known end: where the readable log ended when it was asked
	// last. -1: not known.
	end int64
	// trouble is why the split must be looked up again once the queue is empty.
	trouble *trouble
	// failed is returned once the queue is empty.
	failed error

	// notice: there is something to say without a row.
	notice bool
	// caughtUp is what was said last.
	caughtUp bool
	// skipped is said with the next Polled.
	skipped map[string]int64
	// moved: a record came since the last tick.
	moved bool
	// stalled counts looks at which records were there and did not come.
	stalled int
	// lack is what its next record waits for; nil: nothing.
	lack *lack
	// paused: nothing is said of it; unfetched: the client does not fetch it.
	paused, unfetched bool
}

type state int

const (
	// resolving: the watcher finds out where to begin.
	resolving state = iota
	// reading: the client fetches it.
	reading
	// standing: at Until, waiting to be assigned again.
	standing
)

// fetched is a run of records from one answer.
type fetched struct {
	records []*kgo.Record
	bytes   int64
}

// lowQueue: while more than that waits in queues, the client is not asked for
// more. It holds one answer of each broker ready meanwhile, so that fetching
// and decoding overlap, and memory stays at about two answers.
const lowQueue = 1 << 20

// recordOverhead is about what a record costs beside its bytes.
const recordOverhead = 200

func newSource(_ context.Context, env *dataflow.Env, cfg Config) (dataflow.Source, error) {
	return open(env, cfg, checkEvery)
}

// open is newSource with the interval at which quiet splits are looked at.
func open(env *dataflow.Env, cfg Config, every time.Duration) (*source, error) {
	if problems := check(cfg); len(problems) > 0 {
		return nil, problems
	}
	if env.NewDecoder == nil {
		return nil, dataflow.Permanentf("kafka source %q: no decoder", env.Step)
	}
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, fmt.Errorf("make the decoder of %q: %w", env.Step, err)
	}
	s := &source{cfg: cfg, env: env, dials: &dialErrors{}}
	if env.Memory > 0 {
		cfg.FetchMax = min(cfg.FetchMax, max(component.Bytes(env.Memory/8), minFetch))
	}
	if s.poll.rows, err = newRows(env, cfg, dec); err != nil {
		return nil, fmt.Errorf("make the decoder of the keys of %q: %w", env.Step, err)
	}
	s.slabs = &slabs{limit: 8 * int(cfg.FetchMax)}
	opts, err := clientOptions(cfg, env.Dir, s.dials, s.slabs)
	if err != nil {
		return nil, err
	}
	if s.client, err = kgo.NewClient(opts...); err != nil {
		return nil, dataflow.Permanent(fmt.Errorf("make the kafka client: %w", err))
	}
	s.admin = kadm.NewClient(s.client)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.poll.byName = map[dataflow.Split]*split{}
	s.watch.init(every)
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		s.watchLoop()
	}()
	return s, nil
}

// Close implements dataflow.Source.
func (s *source) Close() error {
	s.closed.Do(func() {
		s.cancel()
		s.client.Close() // ends a Poll that waits
		s.wait.Wait()
		s.poll.Lock()
		defer s.poll.Unlock()
		s.poll.done = true
		s.poll.rows.release()
		s.poll.splits, s.poll.byName = nil, nil
	})
	return nil
}

// Assign implements dataflow.Source. It asks no broker: where a split begins
// is found out in the background, and Poll tells.
func (s *source) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	s.poll.Lock()
	defer s.poll.Unlock()
	var ask []job
	for _, at := range splits {
		sp, err := s.newSplit(at)
		if err != nil {
			return dataflow.Permanent(fmt.Errorf("assign %s: %w", at.Split, err))
		}
		if old := s.poll.byName[at.Split]; old != nil {
			s.remove(old)
			if at.From == nil && old.state != resolving {
				sp.pos, at.From = old.pos, old.pos.encode()
			}
		}
		s.poll.byName[sp.name] = sp
		s.poll.splits = append(s.poll.splits, sp)
		s.gens.set(sp.name, sp.pos.gen)
		if at.From != nil && sp.until != nil && !sp.pos.before(*sp.until) {
			sp.state, sp.notice = standing, true
			continue
		}
		ask = append(ask, job{kind: resolve, split: sp.name, seq: sp.seq, pos: sp.pos, fresh: at.From == nil})
	}
	s.watch.ask(ask...)
	return nil
}

func (s *source) newSplit(at dataflow.SplitAt) (*split, error) {
	topic, partition, err := parseSplit(at.Split)
	if err != nil {
		return nil, err
	}
	s.poll.seq++
	sp := &split{name: at.Split, topic: topic, partition: partition, seq: s.poll.seq, end: -1}
	if at.From != nil {
		if sp.pos, err = parsePosition(at.From); err != nil {
			return nil, err
		}
	}
	if at.Until == nil {
		return sp, nil
	}
	until, err := parsePosition(at.Until)
	if err != nil {
		return nil, err
	}
	// Ends can be asked before the split's generation is known here.
	if until.id == sp.pos.id && until.gen < sp.pos.gen {
		until.gen = sp.pos.gen
	}
	sp.until = &until
	return sp, nil
}

// Unassign implements dataflow.Source.
func (s *source) Unassign(_ context.Context, splits []dataflow.Split) error {
	s.poll.Lock()
	defer s.poll.Unlock()
	for _, name := range splits {
		if sp := s.poll.byName[name]; sp != nil {
			s.remove(sp)
		}
	}
	return nil
}

// remove forgets a split and what was read of it.
func (s *source) remove(sp *split) {
	s.stop(sp)
	s.drop(sp)
	delete(s.poll.byName, sp.name)
	s.watch.ask(job{kind: unask, seq: sp.seq})
	s.poll.splits = slices.DeleteFunc(s.poll.splits, func(o *split) bool { return o == sp })
}

// stop ends the client's fetching of a split.
func (s *source) stop(sp *split) {
	s.fetchAgain(sp)
	if sp.state == reading {
		s.client.RemoveConsumePartitions(map[string][]int32{sp.topic: {sp.partition}})
	}
}

// drop forgets the records that wait. They are left to the garbage collector.
func (s *source) drop(sp *split) {
	if !sp.held() {
		s.poll.buffered -= sp.queued()
	}
	if sp.lack != nil {
		sp.lack.cancel()
		sp.lack = nil
	}
	sp.queue, sp.next = nil, sp.pos.offset
}

// Poll implements dataflow.Source.
func (s *source) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	s.poll.Lock()
	defer s.poll.Unlock()
	wait := time.Duration(limit.WaitMicros) * time.Microsecond
	var timed context.Context
	for {
		if err := s.gone(ctx); err != nil {
			return dataflow.Polled{}, err
		}
		s.heed(s.watch.answers.take())
		if s.poll.buffered < lowQueue {
			s.receive(s.client.PollFetches(nil)) // takes what is there, and sets off the next fetch
		}
		if p, err := s.next(limit); err != nil || p.Split != "" {
			return p, err
		}
		if wait <= 0 || timed != nil && timed.Err() != nil {
			return dataflow.Polled{}, ctx.Err()
		}
		if timed == nil {
			var cancel context.CancelFunc
			timed, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		}
		s.await(timed)
	}
}

// gone says why no Poll may go on.
func (s *source) gone(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.poll.done || s.ctx.Err() != nil:
		return fmt.Errorf("kafka source %q is closed", s.env.Step)
	}
	return s.poll.failed
}

// await waits for records or an answer of the watcher, until ctx ends.
func (s *source) await(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.interrupt.Store(&cancel)
	defer s.interrupt.Store(nil)
	// An answer that came before the line above has interrupted nobody.
	if s.watch.answers.waiting() || s.woken.Swap(false) {
		return
	}
	s.receive(s.client.PollFetches(ctx))
}

// wake ends Poll's wait. Any goroutine may call it.
func (s *source) wake() {
	if cancel := s.interrupt.Load(); cancel != nil {
		(*cancel)()
	}
}

// next makes a Polled of the next split that has something, in turns.
func (s *source) next(limit dataflow.PollLimit) (dataflow.Polled, error) {
	n := len(s.poll.splits)
	for i := range n {
		at := (s.poll.turn + i) % n
		sp := s.poll.splits[at]
		if sp.paused || !s.regained(sp) {
			continue
		}
		if len(sp.queue) == 0 && sp.failed != nil {
			return dataflow.Polled{}, sp.failed
		}
		if len(sp.queue) == 0 && !sp.notice {
			continue
		}
		s.poll.turn = at + 1
		return s.batch(sp, limit)
	}
	return dataflow.Polled{}, s.poll.failed
}

// receive puts what the client fetched into the splits' queues.
func (s *source) receive(fetches kgo.Fetches) {
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			for k := range t.Partitions {
				p := &t.Partitions[k]
				if t.Topic == "" {
					s.clientFailed(p.Err)
					continue
				}
				sp := s.poll.byName[splitName(t.Topic, p.Partition)]
				if sp == nil || sp.state != reading {
					continue
				}
				s.enqueue(sp, topicID(t.TopicID), p)
			}
		}
	}
}

// clientFailed handles errors that belong to no partition. Those of the
// context that Poll waited with, and of Close, are seen elsewhere.
func (s *source) clientFailed(err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	s.poll.failed = classify(fmt.Errorf("read from kafka brokers %v: %w", s.cfg.Brokers, err))
}

// enqueue takes one answer for one partition.
func (s *source) enqueue(sp *split, id string, p *kgo.FetchPartition) {
	if sp.trouble != nil || sp.failed != nil {
		return
	}
	if id != "" && sp.pos.id != "" && id != sp.pos.id {
		s.distrust(sp, &trouble{why: "the topic was recreated", purge: true})
		return
	}
	if n := len(p.Records); n > 0 {
		// The client asks for next and gives nothing before it. If the log now
		// starts behind it and so do the records, some are gone; if they come
		// before it, the client was reset. Neither is let through unseen.
		first := p.Records[0].Offset
		if first < sp.next || first > sp.next && p.LogStartOffset > sp.next {
			s.distrust(sp, &trouble{why: fmt.Sprintf("offset %d was asked for and %d came", sp.next, first)})
			return
		}
		f := fetched{records: p.Records}
		for _, r := range p.Records {
			f.bytes += int64(len(r.Value)) + int64(len(r.Key)) + recordOverhead
		}
		sp.queue = append(sp.queue, f)
		sp.next = p.Records[n-1].Offset + 1
		sp.moved = true
		if sp.held() {
			s.holdFetch(sp)
		} else {
			s.poll.buffered += f.bytes
		}
	}
	if p.Err != nil {
		s.partitionFailed(sp, p.Err)
		return
	}
	sp.end = p.HighWatermark
	if s.cfg.Isolation == readCommitted && p.LastStableOffset >= 0 {
		sp.end = p.LastStableOffset
	}
	if len(sp.queue) == 0 && sp.pos.offset >= sp.end && !sp.caughtUp {
		sp.notice = true
	}
}

// partitionFailed decides what an error means: look again, or stop.
func (s *source) partitionFailed(sp *split, err error) {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.As(err, &lost):
		s.distrust(sp, &trouble{why: lost.Error(), truncated: true, resume: lost.ResetTo})
	case brokers.IsRefusal(err):
		sp.failed = dataflow.Permanent(fmt.Errorf("read %s: %w", sp.name, err))
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		s.distrust(sp, &trouble{why: err.Error(), purge: true})
	case errors.Is(err, kerr.OffsetOutOfRange), kerr.IsRetriable(err):
		s.distrust(sp, &trouble{why: err.Error()})
	default:
		sp.failed = fmt.Errorf("read %s at offset %d: %w", sp.name, sp.next, err)
	}
}

// distrust stops fetching a split; it is looked up again when its queue is
// empty.
func (s *source) distrust(sp *split, t *trouble) {
	s.stop(sp)
	sp.state, sp.trouble = resolving, t
	sp.notice = sp.notice || sp.caughtUp // it is not any more
	if len(sp.queue) == 0 {
		s.lookAgain(sp)
	}
}

// lookAgain asks the watcher where a split in trouble goes on.
func (s *source) lookAgain(sp *split) {
	t := sp.trouble
	sp.trouble = nil
	s.env.Log.Info("kafka partition is looked up again", "split", string(sp.name), "offset", sp.pos.offset, "why", t.why)
	if t.purge {
		s.forget(sp.topic)
	}
	s.watch.ask(job{kind: resolve, split: sp.name, seq: sp.seq, pos: sp.pos, trouble: t})
}

// forget makes the client learn a topic anew: it never gives up the id it saw
// first.
func (s *source) forget(topic string) {
	for _, sp := range s.poll.splits {
		if sp.topic == topic && sp.state == reading {
			s.distrust(sp, &trouble{why: "another partition of the topic met another topic"})
		}
	}
	s.client.PurgeTopicsFromConsuming(topic)
}

var _ dataflow.Source = (*source)(nil)
