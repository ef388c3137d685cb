package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/spool"
	"frazil/dataflow/webhooks"
)

const (
	// triesAtOnce bounds how often a request is sent before the commit says that it
	// waits; it is tried again then, by the same lane.
	triesAtOnce = 4
	firstWait   = 100 * time.Millisecond
	// longWait is from where on Retry-After is not waited for within a commit.
	longWait = 5 * time.Second
	// answerKept is how much of an answer is kept, answerRead how much is read so that
	// the connection can be used again.
	answerKept, answerRead = 1 << 10, 64 << 10
)

// failure is an answer, or the want of one, that is not good.
type failure struct {
	status int // 0: there was none
	detail string
	after  time.Duration // as Retry-After says; 0: it does not
}

// deliver posts a batch until it is taken or refused; an error says that it is neither
// yet.
func (l *lane) deliver(ctx context.Context, d *spool.Delivery, b *batch, id string) error {
	parts, err := texts(b.request)
	if err != nil {
		return err
	}
	now := l.env.Now()
	if l.failed != id {
		l.failed, l.first, l.later = id, now, time.Time{}
	}
	if wait := l.later.Sub(now); wait > longWait {
		return dataflow.Unavailable(fmt.Errorf("%s %s: the receiver wants to be asked again in %s", parts[1], parts[0], wait.Round(time.Second)))
	} else if err := sleep(ctx, wait); err != nil {
		return err
	}
	for try := 1; ; try++ {
		f, err := l.post(ctx, parts, b, id)
		if err != nil {
			return err
		}
		if f == nil {
			l.failed = ""
			return nil
		}
		giveUp := l.cfg.GiveUpAfter.D()
		late := giveUp > 0 && l.env.Now().Sub(l.first) >= giveUp
		if l.final(f.status) || late {
			l.failed = ""
			return l.refuse(d, parts, b, f, late && !l.final(f.status))
		}
		wait := f.after
		if wait == 0 {
			wait = firstWait << (try - 1)
			wait = wait/2 + rand.N(wait/2+1)
		}
		if l.later = l.env.Now().Add(wait); try == triesAtOnce || wait > longWait {
			return dataflow.Unavailable(fmt.Errorf("%s %s: %s", parts[1], parts[0], f.detail))
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// final says whether a status ends the matter.
func (l *lane) final(status int) bool {
	switch {
	case status < 300, status > 499, status == 408, status == 425, status == 429:
		return false
	}
	return !slices.Contains(l.cfg.RetryStatus, status)
}

// post sends a batch once; nil: it was taken.
func (l *lane) post(ctx context.Context, parts []string, b *batch, id string) (*failure, error) {
	req, err := http.NewRequestWithContext(ctx, parts[1], parts[0], bytes.NewReader(b.body.Bytes()))
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	for i := 2; i < len(parts); i += 2 {
		req.Header.Set(parts[i], parts[i+1])
	}
	req.Header.Set("Content-Type", l.contentType)
	req.Header.Set(l.cfg.IdempotencyHeader, id)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "frazil")
	}
	if l.authorization != "" {
		req.Header.Set("Authorization", l.authorization)
	}
	if l.keys != nil {
		webhooks.Sign(req.Header, l.keys, id, l.env.Now(), b.body.Bytes())
	}
	resp, err := l.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return &failure{detail: err.Error()}, nil
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, answerKept))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerRead))
	}
	if err = errors.Join(err, resp.Body.Close()); resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil, nil // Whatever became of the rest of the answer.
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &failure{resp.StatusCode, strings.TrimSpace(resp.Status + " " + string(kept)), retryAfter(resp.Header.Get("Retry-After"), l.env.Now())}, nil
}

// retryAfter reads the header: seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(min(n, 86400)) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil && t.After(now) {
		return min(t.Sub(now), 24*time.Hour)
	}
	return 0
}

// refuse notes the rows of a batch that is given up: the whole of it under its first row.
func (l *lane) refuse(d *spool.Delivery, parts []string, b *batch, f *failure, late bool) error {
	r := spool.Refusal{Row: b.first, Reason: "status_" + strconv.Itoa(f.status), Detail: f.detail, To: parts[1] + " " + parts[0], Rows: b.rows}
	if late {
		r.Reason = "given_up"
	}
	r.SetPayload(b.body.Bytes())
	return d.Refuse(r)
}
