package http

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/spool"
	"frazil/dataflow/webhooks"
)

// sender posts the rows of commits. One goroutine uses it.
type sender struct {
	env           *dataflow.Env
	cfg           Config
	client        *http.Client
	keys          [][]byte
	authorization string
	contentType   string
	lanes         []*lane
}

// lane has one request under way at a time.
type lane struct {
	*sender
	n int
	// first is when the request that failed last was sent first, and later when the
	// receiver wants it again.
	failed string
	first  time.Time
	later  time.Time
}

func newSender(env *dataflow.Env, cfg Config) (*sender, error) {
	s := &sender{env: env, cfg: cfg, contentType: cfg.ContentType}
	tls, err := cfg.TLS.Config(env.Dir)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.MaxIdleConnsPerHost, transport.ForceAttemptHTTP2 = tls, cfg.Parallel, true
	s.client = &http.Client{
		Transport: transport, Timeout: cfg.Timeout.D(),
		// A redirect would lose the method or send the body elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if s.contentType == "" {
		s.contentType = "application/json"
		if cfg.Batch != nil && cfg.Batch.Format == formatNDJSON {
			s.contentType = "application/x-ndjson"
		}
	}
	if cfg.Sign != nil {
		for _, x := range cfg.Sign.Secrets {
			key, err := webhooks.Key(x.Reveal())
			if err != nil {
				return nil, dataflow.Permanent(err)
			}
			s.keys = append(s.keys, key)
		}
	}
	switch {
	case cfg.Bearer != "":
		s.authorization = "Bearer " + cfg.Bearer.Reveal()
	case cfg.Basic != nil:
		s.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(cfg.Basic.User+":"+cfg.Basic.Password.Reveal()))
	}
	n := 1
	if cfg.Key != "" {
		n = cfg.Parallel
	}
	for i := range n {
		s.lanes = append(s.lanes, &lane{sender: s, n: i})
	}
	return s, nil
}

// Close implements spool.Sender.
func (s *sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// batch is the rows of one request. Their numbers are first to before next, but not all
// of them: those of other lanes lie between.
type batch struct {
	request     []byte
	body        bytes.Buffer
	rows        int
	first, next int64
}

// Send implements spool.Sender. A lane that fails does not stop the others.
func (s *sender) Send(ctx context.Context, d *spool.Delivery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	errs := make([]error, len(s.lanes))
	queues := make([]chan *batch, len(s.lanes))
	for i, l := range s.lanes {
		queues[i] = make(chan *batch, 1)
		work.Go(func() {
			errs[i] = dataflow.Guarded(func() error { return l.run(ctx, d, queues[i]) })
			for range queues[i] { // What is left is for the next try.
			}
		})
	}
	err := s.fill(ctx, d, queues)
	if err != nil {
		cancel()
	}
	for _, q := range queues {
		close(q)
	}
	work.Wait()
	if err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// fill makes batches of the rows that are not done.
func (s *sender) fill(ctx context.Context, d *spool.Delivery, queues []chan *batch) error {
	open := make([]*batch, len(queues))
	flush := func(i int) error {
		b := open[i]
		if open[i] = nil; b == nil {
			return nil
		}
		select {
		case queues[i] <- b:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := d.Each(func(n int64, row []byte) error {
		x, err := parseRow(row)
		if err != nil {
			return err
		}
		i := int(x.key % uint64(len(queues)))
		if n < d.Done(i) {
			return nil
		}
		if b := open[i]; b != nil && (s.full(b, len(x.body)) || !bytes.Equal(b.request, x.request)) {
			if err := flush(i); err != nil {
				return err
			}
		}
		if open[i] == nil {
			open[i] = &batch{request: bytes.Clone(x.request), first: n}
		}
		s.add(open[i], n, x.body)
		if s.cfg.Batch == nil {
			return flush(i)
		}
		return nil
	})
	for i := range queues {
		if err == nil {
			err = flush(i)
		}
	}
	return err
}

// full says whether another row would be too much.
func (s *sender) full(b *batch, more int) bool {
	return b.rows >= s.cfg.Batch.Rows || b.body.Len()+more > int(s.cfg.Batch.Bytes)
}

func (s *sender) add(b *batch, n int64, body []byte) {
	if s.cfg.Batch != nil {
		switch {
		case s.cfg.Batch.Format == formatNDJSON && b.rows > 0:
			b.body.WriteByte('\n')
		case s.cfg.Batch.Format == formatJSON && b.rows > 0:
			b.body.WriteByte(',')
		case s.cfg.Batch.Format == formatJSON:
			b.body.WriteByte('[')
		}
	}
	b.body.Write(body)
	b.rows++
	b.next = n + 1
}

// run delivers batches, one after the other.
func (l *lane) run(ctx context.Context, d *spool.Delivery, queue <-chan *batch) error {
	for b := range queue {
		if l.cfg.Batch != nil && l.cfg.Batch.Format == formatJSON {
			b.body.WriteByte(']')
		}
		id := fmt.Sprintf("%s-%d-%d-%d", d.ID, b.first, b.next-1, b.rows)
		if err := l.deliver(ctx, d, b, id); err != nil {
			return err
		}
		d.Delivered(l.n, b.next)
	}
	return nil
}
