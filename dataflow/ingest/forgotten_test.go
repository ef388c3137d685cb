package ingest

import (
	"errors"
	"testing"
)

// A group is durable and could not be remembered, which breaks the stream; another one
// waits behind it. When the log is read again, retries of both are known.
func TestNothingIsWrittenBehindAGroupThatWasForgotten(t *testing.T) {
	r := newRig(t).open()
	defer func() { r.close() }()
	r.accept(&Request{Records: records(0, 3), Key: "before"})
	requests := func(key string, from int) *Request {
		return &Request{Records: records(from, from+3), Key: key, Digest: 7}
	}
	answers := map[string]error{}
	gathered := func(key string, from int) *group {
		req := requests(key, from)
		req.Done = func(_ Result, err error) { answers[key] = err }
		req.name()
		return r.s.group([]*Request{req})
	}
	forgotten, behind := gathered("forgotten", 10), gathered("behind", 20)
	if _, err := r.s.append(forgotten.frames); err != nil {
		t.Fatal(err)
	}
	r.s.conclude(&forgotten.outcomes[0], 0, r.s.breaks(errors.New("the keys cannot be read")))
	forgotten.rows.Release()
	r.s.write(behind)
	for _, key := range []string{"forgotten", "behind"} {
		if !errors.Is(answers[key], ErrUnavailable) {
			t.Errorf("request %s was answered with %v, want that it is to be sent again", key, answers[key])
		}
	}
	must(t, r.s.keys.Save()) // As before the log is truncated.
	r.reopen()
	if res := r.accept(requests("forgotten", 10)); !res.Replayed || res.Accepted != 3 {
		t.Errorf("what is in the log was not recognised: %+v", res)
	}
	if res := r.accept(requests("behind", 20)); res.Replayed || res.Accepted != 3 {
		t.Errorf("what was not written was taken for known: %+v", res)
	}
}
