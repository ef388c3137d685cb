package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bounds is what a partition holds now.
type bounds struct {
	id string
	// start is the first offset that exists, high the one after the last,
	// stable the one after the last that may be read under the isolation level.
	start, high, stable int64
}

// Discover implements dataflow.Discoverer: all partitions of all topics. A
// topic that does not exist is an error.
func (s *source) Discover(ctx context.Context) ([]dataflow.Split, error) {
	names, err := s.names(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	topics, err := s.metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	var out []dataflow.Split
	for _, name := range names {
		t := topics[name]
		if errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.UnknownTopicOrPartition) && !slices.Contains(s.cfg.Topics, name) {
			continue // Deleted since it was found by the pattern.
		}
		if err := topicError(name, t.ErrorCode); err != nil {
			return nil, classify(err)
		}
		for _, p := range t.Partitions {
			out = append(out, splitName(name, p.Partition))
		}
	}
	slices.Sort(out)
	return out, nil
}

// names are those of all topics to read: the named ones, and those of the pattern that
// exist.
func (s *source) names(ctx context.Context) ([]string, error) {
	pattern, err := s.cfg.pattern()
	if err != nil || pattern == nil {
		return s.cfg.Topics, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := s.admin.ListTopics(ctx)
	if err != nil {
		return nil, classify(fmt.Errorf("ask kafka brokers %v for topics: %w", s.cfg.Brokers, s.dials.explain(err)))
	}
	out := slices.Clone(s.cfg.Topics)
	for name := range all {
		if pattern.MatchString(name) && !strings.HasPrefix(name, "__") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Start implements dataflow.Starter.
func (s *source) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	at, ok := s.cfg.startTime()
	if !ok {
		return s.positions(ctx, splits, func(_ dataflow.Split, b bounds) int64 { return s.startOf(b) })
	}
	topics, err := topicsOf(splits)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	listed, err := s.list(asking, "timestamp", func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return s.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
	}, topics)
	if err != nil {
		return nil, err
	}
	return s.positions(ctx, splits, func(split dataflow.Split, b bounds) int64 {
		topic, partition, _ := parseSplit(split)
		o, ok := listed.Lookup(topic, partition)
		if !ok || o.Err != nil || o.Timestamp < 0 {
			return b.stable // Nothing is as late as that.
		}
		return max(o.Offset, b.start)
	})
}

// Begin implements dataflow.Starter.
func (s *source) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.positions(ctx, splits, func(_ dataflow.Split, b bounds) int64 { return b.start })
}

// Ends implements dataflow.Ender.
func (s *source) Ends(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.positions(ctx, splits, func(_ dataflow.Split, b bounds) int64 { return b.stable })
}

// startOf is the offset of the configured start.
func (s *source) startOf(b bounds) int64 {
	if s.cfg.Start == startLatest {
		return b.stable
	}
	return b.start
}

func (s *source) positions(ctx context.Context, splits []dataflow.Split, pick func(dataflow.Split, bounds) int64) (map[dataflow.Split]dataflow.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for {
		out, err := s.positionsNow(ctx, splits, pick)
		// A partition that was just made is not known to every broker, nor to the
		// client's cache: that passes.
		if err == nil || errors.Is(err, errNoTopic) || !kerr.IsRetriable(err) || !pause(ctx, retryFirst) {
			return out, err
		}
	}
}

func (s *source) positionsNow(ctx context.Context, splits []dataflow.Split, pick func(dataflow.Split, bounds) int64) (map[dataflow.Split]dataflow.Position, error) {
	found, err := s.lookup(ctx, splits)
	if err != nil {
		return nil, err
	}
	out := make(map[dataflow.Split]dataflow.Position, len(splits))
	for split, b := range found {
		if b.err != nil {
			return nil, classify(fmt.Errorf("look up the offsets of %s: %w", split, b.err))
		}
		out[split] = position{gen: s.gens.of(split), offset: pick(split, b.bounds), id: b.id}.encode()
	}
	return out, nil
}

// pause waits, and says whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// found is bounds, or why they could not be had.
type found struct {
	bounds
	err error
}

// lookup asks for the bounds of splits. The error is one that concerns all of
// them.
func (s *source) lookup(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]found, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topics, err := topicsOf(splits)
	if err != nil {
		return nil, err
	}
	starts, err := s.list(ctx, "start", s.admin.ListStartOffsets, topics)
	if err != nil {
		return nil, err
	}
	highs, err := s.list(ctx, "end", s.admin.ListEndOffsets, topics)
	if err != nil {
		return nil, err
	}
	stables := highs
	if s.cfg.Isolation == readCommitted {
		if stables, err = s.list(ctx, "last stable", s.admin.ListCommittedOffsets, topics); err != nil {
			return nil, err
		}
	}
	// Ids are asked last: if the topic is recreated in between, the id is the new
	// one and the position's is seen to be another. The other way round offsets of
	// the new topic would be taken for the old one's.
	meta, err := s.metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	out := make(map[dataflow.Split]found, len(splits))
	for _, split := range splits {
		topic, partition, _ := parseSplit(split)
		f := found{bounds: bounds{id: topicID(meta[topic].TopicID)}}
		f.err = topicError(topic, meta[topic].ErrorCode)
		for _, part := range []struct {
			from kadm.ListedOffsets
			to   *int64
		}{{starts, &f.start}, {highs, &f.high}, {stables, &f.stable}} {
			o, ok := part.from.Lookup(topic, partition)
			switch {
			case f.err != nil:
			case !ok:
				f.err = fmt.Errorf("partition %d of topic %q: %w", partition, topic, kerr.UnknownTopicOrPartition)
			default:
				*part.to, f.err = o.Offset, o.Err
			}
		}
		out[split] = f
	}
	return out, nil
}

// stableEnds asks for the readable ends of topics.
func (s *source) stableEnds(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	if s.cfg.Isolation == readCommitted {
		return s.list(ctx, "last stable", s.admin.ListCommittedOffsets, topics)
	}
	return s.list(ctx, "end", s.admin.ListEndOffsets, topics)
}

type listing func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error)

func (s *source) list(ctx context.Context, what string, list listing, topics []string) (kadm.ListedOffsets, error) {
	listed, err := list(ctx, topics...)
	if err != nil {
		return nil, classify(fmt.Errorf("ask kafka brokers %v for %s offsets: %w", s.cfg.Brokers, what, s.dials.explain(err)))
	}
	return listed, nil
}

// metadata asks for topics, never from a cache.
func (s *source) metadata(ctx context.Context, topics []string) (map[string]kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return nil, classify(fmt.Errorf("ask kafka brokers %v for topics %v: %w", s.cfg.Brokers, topics, s.dials.explain(err)))
	}
	out := make(map[string]kmsg.MetadataResponseTopic, len(topics))
	for _, t := range resp.Topics {
		if t.Topic != nil {
			out[*t.Topic] = t
		}
	}
	for _, t := range topics {
		if _, ok := out[t]; !ok {
			out[t] = kmsg.MetadataResponseTopic{ErrorCode: kerr.UnknownTopicOrPartition.Code}
		}
	}
	return out, nil
}

// errNoTopic: the brokers know no topic of that name.
var errNoTopic = errors.New("does not exist")

func topicError(topic string, code int16) error {
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %q %w: create it, or correct the name under topics (%w)", topic, errNoTopic, err)
	}
	return fmt.Errorf("topic %q: %w", topic, err)
}

func topicsOf(splits []dataflow.Split) ([]string, error) {
	var topics []string
	for _, split := range splits {
		topic, _, err := parseSplit(split)
		if err != nil {
			return nil, dataflow.Permanent(err)
		}
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics), nil
}

// Ack implements dataflow.Acker: it writes the group's offsets, which are only
// looked at by people and their tools. What goes wrong is logged, never
// returned.
func (s *source) Ack(ctx context.Context, e dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	group := s.cfg.Group
	if group == "" {
		group = s.env.Pipeline
	}
	offsets := kadm.Offsets{}
	for split, text := range upTo {
		topic, partition, err := parseSplit(split)
		if err != nil {
			return err
		}
		pos, err := parsePosition(text)
		if err != nil {
			return fmt.Errorf("acknowledge %s: %w", split, err)
		}
		offsets.AddOffset(topic, partition, pos.offset, -1)
	}
	if len(offsets) == 0 || group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout/2)
	defer cancel()
	resp, err := s.admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		s.env.Log.Warn("cannot mirror positions to the consumer group; nothing is lost, lag tools show old figures until the next commit",
			"group", group, "epoch", uint64(e), "err", s.dials.explain(err))
	}
	return nil
}

// Locate implements dataflow.Locator.
func (s *source) Locate(split dataflow.Split, pos int64) string { return locate(split, pos) }

var (
	_ dataflow.Discoverer = (*source)(nil)
	_ dataflow.Starter    = (*source)(nil)
	_ dataflow.Ender      = (*source)(nil)
	_ dataflow.Acker      = (*source)(nil)
	_ dataflow.Locator    = (*source)(nil)
)
