package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/state/wal"
)

// keyed is a request with a key that is being written.
type keyed struct {
	digest uint64
	// others are retries that came meanwhile.
	others []*Request
}

// Spaces of keys, so that none is taken for one of another kind.
const (
	spaceKey byte = iota + 1
	spaceProducer
	spaceSequence
)

func hashKey(space byte, name string, seq uint64) wal.Key {
	var buf [128]byte
	b := binary.LittleEndian.AppendUint64(append(buf[:0], space), seq)
	h := sha256.Sum256(append(b, name...))
	return wal.Key(h[:len(wal.Key{})])
}

// name hashes what names r.
func (r *Request) name() {
	switch {
	case r.Key != "":
		r.key, r.keyed = hashKey(spaceKey, r.Key, 0), true
	case r.Producer != "":
		r.producer = hashKey(spaceProducer, r.Producer, 0)
		r.key, r.keyed = sequenceKey(r.producer, r.Sequence), true
	}
}

func sequenceKey(producer wal.Key, seq uint64) wal.Key {
	return hashKey(spaceSequence, string(producer[:]), seq)
}

func (r *Request) numbered() bool { return r.Key == "" && r.Producer != "" }

// known looks a request's key up. fresh: it is to be decoded and written, and
// then settled. waits: it is answered with the first one, which is under way.
// Otherwise out is its answer.
func (s *Stream) known(r *Request) (out outcome, fresh, waits bool) {
	if !r.keyed {
		return out, true, false
	}
	s.mu.Lock()
	k := s.mu.inflight[r.key]
	if k != nil && k.digest == r.Digest {
		k.others = append(k.others, r)
		s.mu.Unlock()
		return out, false, true
	}
	s.mu.Unlock()
	if k != nil {
		return outcome{r: r, err: ErrOtherRequest}, false, false
	}
	out = outcome{r: r}
	e, ok, err := s.keys.Find(r.key)
	switch {
	case err != nil:
		out.err = s.breaks(err)
		return out, false, false
	case ok && e.Digest != r.Digest:
		out.err = ErrOtherRequest
		return out, false, false
	case ok:
		out.replay = true
		out.res, out.err = resultOf(e)
		return out, false, false
	}
	if r.numbered() {
		w, err := s.window(r.producer)
		if err != nil {
			out.err = s.breaks(err)
			return out, false, false
		}
		if w.seen(r.Sequence) {
			out.replay, out.res = true, Result{Replayed: true, Forgotten: true}
			return out, false, false
		}
	}
	s.mu.Lock()
	s.mu.inflight[r.key] = &keyed{digest: r.Digest}
	s.mu.Unlock()
	return out, true, false
}

func resultOf(e wal.KeyEntry) (Result, error) {
	res := Result{Accepted: int(e.Accepted), First: e.First, Last: e.First + uint64(e.Accepted) - 1, Replayed: true}
	var err error
	if res.Rejected, err = decodeRejected(e.More); err != nil {
		return res, fmt.Errorf("read what a request was answered: %w", err)
	}
	return res, nil
}

// window returns what was seen of a producer.
func (s *Stream) window(producer wal.Key) (*window, error) {
	s.mu.Lock()
	w := s.mu.windows[producer]
	s.mu.Unlock()
	if w != nil {
		return w, nil
	}
	e, ok, err := s.keys.Find(producer)
	if err != nil {
		return nil, err
	}
	w = &window{}
	if ok {
		if *w, ok = decodeWindow(e.More); !ok {
			return nil, fmt.Errorf("%w: what was seen of a producer cannot be read", wal.ErrCorrupt)
		}
	}
	return w, nil
}

// remember puts what is known of requests, the first of whose records is first,
// where retries are looked up. next is behind the last record. It is called in the
// order of the records, when they are durable.
func (s *Stream) remember(notes []note, first, next uint64) error {
	if len(notes) == 0 {
		return nil
	}
	entries := make([]wal.KeyEntry, 0, len(notes))
	var seen map[wal.Key]*window
	for _, n := range notes {
		e := wal.KeyEntry{Key: n.key, Digest: n.digest, First: first + n.at, Accepted: uint32(n.accepted)}
		var err error
		if e.More, err = encodeRejected(n.rejected); err != nil {
			return err
		}
		if n.sequence > 0 {
			w := seen[n.key]
			if w == nil {
				old, err := s.window(n.key)
				if err != nil {
					return err
				}
				if seen == nil {
					seen = map[wal.Key]*window{}
				}
				w = &window{}
				*w = *old
				seen[n.key] = w
			}
			w.add(n.sequence)
			e.Key = sequenceKey(n.key, n.sequence)
		}
		entries = append(entries, e)
	}
	for producer, w := range seen {
		entries = append(entries, wal.KeyEntry{Key: producer, More: w.encode()})
	}
	due := s.keys.Put(next, entries...)
	s.mu.Lock()
	if len(s.mu.windows)+len(seen) > maxWindows {
		s.mu.windows = map[wal.Key]*window{} // They are found in the keys again.
	}
	for producer, w := range seen {
		s.mu.windows[producer] = w
	}
	s.mu.Unlock()
	if due || !s.reserved {
		s.reserved = true
		select {
		case s.saving <- due:
		default:
		}
	}
	return nil
}

// maxWindows bounds how many producers are kept at hand.
const maxWindows = 4096

// settle takes a request from those under way. The retries that came meanwhile get
// its answer, or, where it was not written, are to be sent again.
func (s *Stream) settle(o *outcome) {
	if !o.fresh || !o.r.keyed {
		return
	}
	s.mu.Lock()
	others := s.mu.inflight[o.r.key].others
	delete(s.mu.inflight, o.r.key)
	s.mu.Unlock()
	for _, r := range others {
		res := o.res
		if o.err != nil && !errors.Is(o.err, ErrRejected) {
			r.Done(Result{}, &BusyError{Reason: "retry", RetryAfter: retryAfter, Detail: "the first request with this key was not written"})
			continue
		}
		if o.err != nil || res.Accepted == 0 {
			r.Done(res, o.err)
			continue
		}
		res.Replayed = true
		s.stats.replayed.Add(1)
		s.answer(r, res)
	}
}

// Forget drops what is remembered of a request that was answered: the protocol
// says that its producer will not send it again, and may use the key for another
// one (an MQTT packet identifier after its release).
func (s *Stream) Forget(key string) {
	k := hashKey(spaceKey, key, 0)
	if _, ok, err := s.keys.Find(k); !ok && err == nil {
		return
	}
	s.keys.Forget(k)
}

// save writes keys to the disk when it is time.
func (s *Stream) save() {
	defer s.saved.Done()
	for due := range s.saving {
		err := dataflow.Guarded(s.keys.Reserve)
		if due {
			err = errors.Join(err, dataflow.Guarded(s.keys.Save))
		}
		if err != nil {
			s.logger.Warn("save idempotency keys: it is tried again", "error", err)
		}
	}
}

// restore remembers what a frame of the log says of requests.
func (s *Stream) restore(f wal.Frame) error {
	if f.Kind != kindRecords {
		return nil
	}
	body, err := decodeBody(f.Body)
	if err != nil {
		return dataflow.Permanent(fmt.Errorf("record %d: %w", f.First, err))
	}
	if len(body.rows) > 0 {
		s.late[body.schema] = f.Next()
	}
	if len(body.notes) == 0 || f.First+body.notes[len(body.notes)-1].at < s.keys.Saved() {
		return nil
	}
	return s.remember(body.notes, f.First, f.Next())
}
