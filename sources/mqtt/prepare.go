package mqtt

import (
	"fmt"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// prepare makes requests of messages: one of each run of messages of qos 0 and 1,
// one of each of qos 2, which has a key.
func (l *lane) prepare(ms []message) *batch {
	b := &batch{messages: ms}
	var run *builder
	flush := func(end int) {
		if run != nil {
			if u := run.unit(ms[run.from:end]); u != nil {
				b.units = append(b.units, u)
			}
			run = nil
		}
	}
	for i := range ms {
		m := &ms[i]
		if m.qos > 0 && m.via.replaced() || l.skip(m) {
			continue
		}
		if m.dup {
			l.srv.counts.add("redelivered", 1)
		}
		if m.qos == 2 {
			flush(i)
			run = &builder{l: l, from: i, key: l.keyOf(m)}
			run.add(m)
			flush(i + 1)
			continue
		}
		if run == nil {
			run = &builder{l: l, from: i}
		}
		run.add(m)
	}
	flush(len(ms))
	return b
}

// skip says whether m is no record, and counts it.
func (l *lane) skip(m *message) bool {
	switch {
	case m.retained && l.srv.cfg.Retained == retainedSkip:
		l.srv.counts.add("retained_skipped", 1)
	case len(m.payload) == 0:
		l.srv.counts.add("empty_skipped", 1)
	default:
		return false
	}
	return true
}

// keyOf is the key of a message of qos 2. One that the broker sends for the first
// time is no retry, whatever had its identifier before.
func (l *lane) keyOf(m *message) string {
	key := m.key(l.client)
	l.mu.Lock()
	old := l.mu.keys[m.id]
	l.mu.keys[m.id] = key
	l.mu.Unlock()
	if old != "" && old != key {
		l.srv.stream.Forget(old)
	}
	if !m.dup {
		l.srv.stream.Forget(key)
	}
	return key
}

// builder makes one request.
type builder struct {
	l       *lane
	key     string
	from    int // in the batch
	origins []origin
	records [][]byte
	bads    []ingest.BadRecord
	rows    int // in the topic decoder
}

func (b *builder) add(m *message) {
	o := origin{m: m}
	var bad *dataflow.Bad
	payload := m.payload
	if o.p, o.levels, bad = b.l.srv.match(m.topic); bad == nil {
		payload, bad = b.l.inflater.inflate(payload)
	}
	if bad != nil {
		b.reject(o, *bad)
		return
	}
	if b.l.topics == nil {
		b.origins, b.records = append(b.origins, o), append(b.records, payload)
		return
	}
	n, bads := b.l.topics.AppendTopic(m.topic, payload)
	if b.l.learner != nil && len(bads) == 0 && b.l.learner.Learns(m.topic) {
		if err := b.l.births.add(m.topic, payload); err != nil {
			b.l.srv.log.Error("keep a birth: after a restart it will be asked for", "topic", m.topic, "error", err)
		}
	}
	for range n {
		b.origins = append(b.origins, o)
	}
	b.rows += n
	for _, x := range bads {
		b.reject(o, x)
	}
}

func (b *builder) reject(o origin, bad dataflow.Bad) {
	b.bads = append(b.bads, ingest.BadRecord{Index: len(b.origins), Bad: bad, Raw: o.m.payload})
	b.origins = append(b.origins, o)
}

// unit is the request, of the messages of ms; nil: there are no records.
func (b *builder) unit(ms []message) *unit {
	if len(b.origins) == 0 {
		return nil
	}
	u := &unit{messages: ms}
	u.req = ingest.Request{Records: b.records, Bad: b.bads, Key: b.key, KeepBad: true}
	if b.rows > 0 {
		cols := b.l.topics.Flush()
		u.req.Batch = array.NewRecordBatch(b.l.topics.Schema(), cols, int64(b.rows))
		for _, c := range cols {
			c.Release()
		}
	}
	origins, appenders := b.origins, b.l.srv.appenders
	u.req.Meta = func(bs []array.Builder, i int) {
		for j, a := range appenders {
			a(bs[j], origins[i])
		}
	}
	return u
}

// release gives up the rows of units that are done with.
func release(units []*unit) {
	for _, u := range units {
		if u.req.Batch != nil {
			u.req.Batch.Release()
		}
	}
}

// match finds the pattern of a topic and its levels.
func (s *server) match(topic string) (*pattern, []string, *dataflow.Bad) {
	if !utf8.ValidString(topic) {
		return nil, nil, &dataflow.Bad{Reason: "invalid_utf8", Detail: fmt.Sprintf("topic %q is no UTF-8", topic)}
	}
	for i := range s.patterns {
		p := &s.patterns[i]
		if levels, ok := p.match(topic, nil); ok {
			return p, levels, nil
		}
	}
	return nil, nil, &dataflow.Bad{Reason: "no_topic_pattern", Detail: fmt.Sprintf("topic %q matches none of the patterns", topic)}
}
