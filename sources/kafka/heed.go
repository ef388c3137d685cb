package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// heed takes in what the watcher found out.
func (s *source) heed(answers []answer) {
	add := map[string]map[int32]kgo.Offset{}
	for i := range answers {
		a := &answers[i]
		if a.kind == tick {
			s.askChecks()
			continue
		}
		if a.kind == look {
			s.poll.checks--
		}
		sp := s.poll.byName[a.split]
		if sp == nil || sp.seq != a.seq {
			continue
		}
		if a.kind == look {
			s.heedCheck(sp, a)
			continue
		}
		if sp.state != resolving {
			continue
		}
		if a.err != nil {
			sp.failed = a.err
			continue
		}
		s.begin(sp, a)
		if add[sp.topic] == nil {
			add[sp.topic] = map[int32]kgo.Offset{}
		}
		add[sp.topic][sp.partition] = kgo.NewOffset().At(sp.pos.offset)
	}
	s.client.AddConsumePartitions(add)
}

// begin sets a split to where the watcher says.
func (s *source) begin(sp *split, a *answer) {
	sp.pos, sp.next, sp.end = a.to, a.to.offset, a.end
	sp.state, sp.notice, sp.moved, sp.stalled = reading, true, true, 0
	s.gens.set(sp.name, sp.pos.gen)
	if u := sp.until; u != nil && u.id == sp.pos.id && u.gen < sp.pos.gen {
		u.gen = sp.pos.gen
	}
	if a.lost > 0 {
		sp.skip("gap", a.lost)
	}
}

// heedCheck takes in where a quiet split's log ends. If the split has moved
// meanwhile, its own answers know better.
func (s *source) heedCheck(sp *split, a *answer) {
	if sp.state != reading || len(sp.queue) > 0 || sp.pos != a.pos {
		return
	}
	if a.err != nil {
		// Nothing is known of this split now: it is stalled, not idle.
		sp.end, sp.notice = -1, sp.notice || sp.caughtUp
		sp.stalled = 0
		return
	}
	sp.end = max(sp.end, a.end)
	if !a.behind && a.to.offset > sp.pos.offset {
		if u := sp.until; u != nil && u.before(a.to) {
			a.to = *u // what lies between is no record
		}
		sp.pos, sp.notice = a.to, true
		sp.next = max(sp.next, sp.pos.offset)
	}
	sp.notice = sp.notice || sp.caughtUp != (sp.pos.offset >= sp.end)
	if !a.behind {
		sp.stalled = 0
		return
	}
	if sp.stalled++; sp.stalled >= stallTicks {
		s.env.Log.Warn("kafka: records are there but do not come; fetching the partition anew", "split", string(sp.name), "offset", sp.pos.offset, "end", a.end)
		s.distrust(sp, &trouble{why: "stalled"})
	}
}

// askChecks lets the watcher look at the splits that gave nothing since the
// last tick. While records wait in the client because the queues are full,
// nobody is quiet.
func (s *source) askChecks() {
	s.poll.ticks++
	if s.poll.checks > 0 || s.poll.buffered >= lowQueue {
		return
	}
	var ask []job
	idle := true
	for _, sp := range s.poll.splits {
		quiet := sp.state == reading && len(sp.queue) == 0 && !sp.moved && !sp.paused
		idle = idle && quiet
		sp.moved = false
		if quiet && (!sp.caughtUp || s.poll.ticks%calmTicks == 0) {
			ask = append(ask, job{kind: look, split: sp.name, seq: sp.seq, pos: sp.pos})
		}
	}
	if idle {
		s.slabs.drop()
	}
	s.poll.checks = len(ask)
	s.watch.ask(ask...)
}
