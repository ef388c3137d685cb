package ingest

import (
	"time"
)

// keyed is a request with a key, under way or answered.
type keyed struct {
	key     string
	digest  uint64
	done    bool
	res     Result
	arrived time.Time
	// others are retries that came while the first was under way.
	others []*Request
}

// known looks a request's key up. fresh: it is to be decoded and written; k is
// then to be finished or forgotten (nil without a key). Otherwise it is answered,
// or will be with the first one.
func (s *Stream) known(r *Request) (k *keyed, fresh bool) {
	if r.Key == "" {
		return nil, true
	}
	s.mu.Lock()
	k = s.mu.keys[r.Key]
	if k == nil || k.done && s.now().Sub(k.arrived) > s.cfg.Idempotency.Keep.D() {
		k = &keyed{key: r.Key, digest: r.Digest, arrived: s.now()}
		s.mu.keys[r.Key] = k
		s.mu.Unlock()
		return k, true
	}
	if !k.done && k.digest == r.Digest {
		k.others = append(k.others, r)
		s.mu.Unlock()
		return nil, false
	}
	res, same := k.res, k.digest == r.Digest
	s.mu.Unlock()
	if r.Batch != nil {
		r.Batch.Release()
	}
	if !same {
		r.Done(Result{}, ErrOtherRequest)
		return nil, false
	}
	res.Replayed = true
	s.stats.replayed.Add(1)
	s.answer(r, res)
	return nil, false
}

// forget drops the key of a request that was not written.
func (s *Stream) forget(k *keyed) {
	if k == nil {
		return
	}
	s.mu.Lock()
	delete(s.mu.keys, k.key)
	others := k.others
	s.mu.Unlock()
	fail(others, &BusyError{Reason: "retry", RetryAfter: retryAfter, Detail: "the first request with this key was not written"})
}

// finish remembers the result of a request that is durable, and answers the
// retries that came meanwhile.
func (s *Stream) finish(k *keyed, res Result) {
	if k == nil {
		return
	}
	s.mu.Lock()
	k.done, k.res = true, res
	others := k.others
	k.others = nil
	s.mu.Unlock()
	res.Replayed = true
	for _, r := range others {
		s.stats.replayed.Add(1)
		s.answer(r, res)
	}
}

// restoreKeys reads the notes of the log.
func (s *Stream) restoreKeys() error {
	c, err := s.log.Read(s.log.First())
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		f, ok, err := c.Next()
		if err != nil || !ok {
			return err
		}
		body, err := decodeBody(f.Body)
		if err != nil {
			return err
		}
		for _, n := range body.notes {
			s.mu.keys[n.key] = &keyed{key: n.key, digest: n.digest, done: true, res: n.result(f.First), arrived: time.UnixMicro(f.Arrived)}
		}
	}
}
