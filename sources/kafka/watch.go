package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// checkEvery is how often quiet splits are looked at.
	checkEvery = time.Second
	// calmTicks: a split that is known to be caught up is looked at every so many
	// ticks.
	calmTicks = 5
	// stallTicks: after so many looks at records that are there but do not come,
	// the split is fetched anew.
	stallTicks = 10
	// Questions that failed are asked again after this, doubled up to retryMax.
	retryFirst = 250 * time.Millisecond
	retryMax   = 30 * time.Second
)

// watcher asks brokers on behalf of Poll, so that Poll keeps its bound on
// waiting however long a broker takes.
type watcher struct {
	every   time.Duration
	jobs    mailbox[job]
	answers mailbox[answer]
}

type jobKind int

const (
	// resolve finds out where a split goes on, and whether records are missing.
	resolve jobKind = iota
	// check looks whether a quiet split has more to read.
	look
	// unask drops the jobs of an assignment.
	unask
	// tick is an answer nobody asked for: it is time to look at quiet splits.
	tick
)

// job is one question about one split.
type job struct {
	kind  jobKind
	split dataflow.Split
	seq   uint64
	pos   position
	// fresh: pos does not count, the configured start does.
	fresh bool
	// trouble is why a split that was read is looked up again.
	trouble *trouble
}

// trouble is what was seen while reading.
type trouble struct {
	why string
	// purge: the client must forget what it knows about the topic.
	purge bool
	// truncated: offsets from resume on now hold other records.
	truncated bool
	resume    int64
}

// answer is to a job, which it repeats.
type answer struct {
	job
	// to is where the split goes on.
	to position
	// end is where its readable log ended when asked.
	end int64
	// lost counts offsets that were passed over (on_gap: continue).
	lost int64
	// behind: there are records at to or after it.
	behind bool
	// err ends the source (resolve), or says that the end is not known (check).
	err error
}

func (w *watcher) init(every time.Duration) {
	w.every = every
	w.jobs.wake = make(chan struct{}, 1)
	w.answers.wake = make(chan struct{}, 1)
}

func (w *watcher) ask(jobs ...job) { w.jobs.put(jobs...) }

// watchLoop runs until Close.
func (s *source) watchLoop() {
	ticks := time.NewTicker(s.watch.every)
	defer ticks.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	var todo []job // to be resolved
	failures, silent := 0, 0
	compacted := map[string]bool{} // topics that were asked about
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticks.C:
			if !s.watch.answers.waiting() {
				s.answer(answer{job: job{kind: tick}})
			}
			continue
		case <-s.watch.jobs.wake:
		case <-retry.C:
		}
		var checks []job
		for _, j := range s.watch.jobs.take() {
			switch j.kind {
			case resolve:
				todo = append(todo, j)
			case look:
				checks = append(checks, j)
			case unask:
				todo = slices.DeleteFunc(todo, func(o job) bool { return o.seq == j.seq })
			}
		}
		s.warnCompacted(todo, compacted)
		var err error
		if todo, err = s.resolveAll(todo); err != nil {
			failures++
			wait := min(retryFirst<<min(failures-1, 10), retryMax)
			s.env.Log.Warn("kafka: still waiting", "err", err, "retry_in", wait.String())
			retry.Reset(wait)
		} else {
			failures = 0
		}
		if len(checks) > 0 {
			silent = s.complain(s.checkAll(checks), silent)
		}
	}
}

// complain logs that brokers do not answer, less and less often, and that they
// answer again. It counts the failures in a row.
func (s *source) complain(err error, before int) int {
	switch {
	case s.ctx.Err() != nil:
		return before
	case err == nil:
		if before > 0 {
			s.env.Log.Info("kafka: brokers answer again", "brokers", s.cfg.Brokers)
		}
		return 0
	}
	if n := before + 1; n&before == 0 || n%32 == 0 { // 1, 2, 4, 8, 16, 32, 64, 96, ...
		s.env.Log.Warn("kafka: brokers do not answer; reading goes on when they do", "err", err, "failures", n)
	}
	return before + 1
}

func (s *source) answer(a ...answer) {
	s.watch.answers.put(a...)
	s.wake()
}

// resolveAll answers what can be answered and returns the rest, with the
// reason.
func (s *source) resolveAll(jobs []job) ([]job, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	var splits []dataflow.Split
	for _, j := range jobs {
		splits = append(splits, j.split)
	}
	slices.Sort(splits)
	all, err := s.lookup(s.ctx, slices.Compact(splits))
	if s.ctx.Err() != nil {
		return nil, nil
	}
	if err != nil && !errors.Is(err, dataflow.ErrPermanent) {
		return jobs, err
	}
	var rest []job
	var why error
	for _, j := range jobs {
		f := all[j.split]
		a := answer{job: j, end: f.stable, err: err}
		if a.err == nil && f.err != nil {
			f.err = classify(fmt.Errorf("look up %s: %w", j.split, f.err))
			if !errors.Is(f.err, dataflow.ErrPermanent) {
				rest, why = append(rest, j), f.err
				continue
			}
			a.err = f.err
		}
		if a.err == nil {
			a.to, a.lost, a.err = s.decide(j, f.bounds)
		}
		s.answer(a)
	}
	return rest, why
}

// decide says where a split goes on, given what its partition holds: the one
// place where gaps are judged.
func (s *source) decide(j job, b bounds) (to position, lost int64, err error) {
	p := j.pos
	if j.fresh {
		return position{gen: p.gen, offset: s.startOf(b), id: b.id}, 0, nil
	}
	to = position{gen: p.gen, offset: p.offset, id: b.id}
	if to.id == "" {
		to.id = p.id
	}
	why := ""
	switch {
	case p.id != "" && b.id != "" && p.id != b.id:
		why = fmt.Sprintf("the topic was deleted and created again: its id was %s and is %s", p.id, b.id)
		to.gen, to.offset, lost = p.gen+1, b.start, 1
	case j.trouble != nil && j.trouble.truncated:
		why = "the log was truncated by a change of leader: " + j.trouble.why
		to.gen, to.offset = p.gen+1, min(max(j.trouble.resume, b.start), b.high)
		lost = max(p.offset-to.offset, 1)
	case p.offset < b.start:
		why = "retention was faster, or records were deleted"
		to.offset, lost = b.start, b.start-p.offset
	case p.offset > b.high && p.id == "":
		why = "the log ends before the position: the topic was recreated or truncated"
		to.gen, to.offset, lost = p.gen+1, b.start, 1
	case p.offset > b.high:
		why = "the log ends before the position: it was truncated"
		to.gen, to.offset, lost = p.gen+1, b.high, p.offset-b.high
	}
	if why == "" {
		return to, 0, nil
	}
	if s.cfg.OnGap != gapContinue {
		return position{}, 0, fmt.Errorf("%w in %s: offset %d is wanted, offsets %d to %d are there (end not included): %s; with on_gap: continue reading goes on at what is there",
			dataflow.ErrGap, j.split, p.offset, b.start, b.high, why)
	}
	if to.gen > maxGen {
		return position{}, 0, dataflow.Permanentf("%s: offsets began anew more than %d times", j.split, maxGen)
	}
	s.env.Log.Warn("kafka: records are missing; going on as on_gap: continue says", "split", string(j.split),
		"wanted", p.offset, "start", b.start, "end", b.high, "resume", to.offset, "why", why)
	return to, lost, nil
}

// warnCompacted says once per topic that its records cannot be read again as
// they were. Topics whose settings may not be read are passed over.
func (s *source) warnCompacted(jobs []job, asked map[string]bool) {
	var topics []string
	for _, j := range jobs {
		topic, _, _ := parseSplit(j.split)
		if !asked[topic] {
			asked[topic] = true
			topics = append(topics, topic)
		}
	}
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout/2)
	defer cancel()
	configs, _ := s.admin.DescribeTopicConfigs(ctx, topics...)
	for _, rc := range configs {
		for _, c := range rc.Configs {
			if c.Key == "cleanup.policy" && strings.Contains(c.MaybeValue(), "compact") {
				s.env.Log.Warn("kafka: the topic is compacted: a replay may not give the same records", "topic", rc.Name)
			}
		}
	}
}

// checkAll looks at quiet splits. The error is the last one, for the log.
func (s *source) checkAll(jobs []job) (failed error) {
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	var splits []dataflow.Split
	for _, j := range jobs {
		splits = append(splits, j.split)
	}
	topics, err := topicsOf(splits)
	if err != nil {
		return err
	}
	ends, err := s.stableEnds(ctx, topics)
	for _, j := range jobs {
		a := answer{job: j, to: j.pos, err: err}
		topic, partition, _ := parseSplit(j.split)
		o, ok := ends.Lookup(topic, partition)
		switch {
		case err != nil:
		case !ok:
			a.err = kerr.UnknownTopicOrPartition
		case o.Err != nil:
			a.err = o.Err
		default:
			a.end = o.Offset
			if j.pos.offset < a.end {
				a.to.offset, a.behind, a.err = s.probe(ctx, topic, partition, j.pos.offset)
			}
		}
		if a.err != nil {
			failed = fmt.Errorf("look at the end of %s: %w", j.split, a.err)
		}
		s.answer(a)
	}
	return failed
}

// probe finds the next record or marker at or after offset. Without one it
// returns where the readable log ends: what lies between was compacted away,
// or belongs to aborted transactions.
func (s *source) probe(ctx context.Context, topic string, partition int32, offset int64) (next int64, found bool, err error) {
	meta, err := s.metadata(ctx, []string{topic})
	if err != nil {
		return offset, false, err
	}
	leader := int32(-1)
	for _, p := range meta[topic].Partitions {
		if p.Partition == partition {
			leader = p.Leader
		}
	}
	if leader < 0 {
		return offset, false, kerr.LeaderNotAvailable
	}
	opts := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Topic: topic, Partition: partition, IsolationLevel: kgo.ReadUncommitted()}
	if s.cfg.Isolation == readCommitted {
		opts.IsolationLevel = kgo.ReadCommitted()
	}
	for {
		part, err := s.fetchOnce(ctx, leader, topic, meta[topic].TopicID, partition, offset)
		if err != nil {
			return offset, false, err
		}
		opts.Offset = offset
		fp, after := kgo.ProcessFetchPartition(opts, part, kgo.DefaultDecompressor(), nil)
		switch {
		case fp.Err != nil:
			return offset, false, fp.Err
		case len(fp.Records) > 0:
			return fp.Records[0].Offset, true, nil
		case after > offset:
			offset = after
		case len(part.RecordBatches) > 0:
			return offset, true, nil // something that is not understood: leave it to the client
		case s.cfg.Isolation == readCommitted && fp.LastStableOffset >= 0:
			return max(offset, fp.LastStableOffset), false, nil
		default:
			return max(offset, fp.HighWatermark), false, nil
		}
	}
}

// fetchOnce asks a leader for one partition from offset on, without waiting.
func (s *source) fetchOnce(ctx context.Context, leader int32, topic string, id [16]byte, partition int32, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 1 << 20
	req.SessionEpoch = -1
	if s.cfg.Isolation == readCommitted {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := s.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, s.dials.explain(err)
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("fetch of one partition was answered with %d topics", len(resp.Topics))
	}
	return &resp.Topics[0].Partitions[0], nil
}

// mailbox passes values from some goroutines to one.
type mailbox[T any] struct {
	wake chan struct{}
	mu   struct {
		sync.Mutex
		items []T
	}
}

func (m *mailbox[T]) put(items ...T) {
	if len(items) == 0 {
		return
	}
	m.mu.Lock()
	m.mu.items = append(m.mu.items, items...)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox[T]) take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.mu.items
	m.mu.items = nil
	return items
}

func (m *mailbox[T]) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.items) > 0
}
