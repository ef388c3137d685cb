package proof

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"frazil/dataflow/flowtest/program"
	"frazil/test/proof/model"
)

// feed hands the records of each split to its source, in their order, as far as it
// is allowed.
type feed struct {
	x      *Trial
	ctx    context.Context
	rng    *rand.Rand
	kafka  *kgo.Client
	client http.Client

	mu      sync.Mutex
	more    sync.Cond
	allowed float64
	fed     map[model.Split]int
	wg      sync.WaitGroup
}

func newFeed(x *Trial) *feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{x: x, ctx: ctx, rng: rand.New(rand.NewPCG(uint64(x.config.Seed), 1)), fed: map[model.Split]int{}}
	f.more.L = &f.mu
	f.client = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	if x.topic != "" {
		f.kafka = newTopic(x.T, x.config.Kafka, x.topic)
	}
	x.T.Cleanup(func() {
		cancel()
		f.allow(0)
		f.wg.Wait()
		f.client.CloseIdleConnections()
	})
	for s := range x.Input {
		put := f.toFiles
		switch s.Source {
		case "topic":
			put = f.toTopic
		case "pushed":
			put = f.toHTTP
		}
		f.wg.Go(func() { f.work(s, put) })
	}
	return f
}

func newTopic(t testing.TB, broker, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.RecordDeliveryTimeout(program.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	keep := "-1"
	resp, err := kadm.NewClient(cl).CreateTopic(context.Background(), 2, 1, map[string]*string{"retention.ms": &keep}, topic)
	if err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	return cl
}

// allow lets it feed up to a fraction of each split.
func (f *feed) allow(fraction float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = max(f.allowed, fraction)
	f.more.Broadcast()
}

// work feeds one split.
func (f *feed) work(s model.Split, put func(model.Split, []model.Record) error) {
	records := f.x.Input[s]
	for from := 0; from < len(records); {
		to := f.next(s, from, len(records))
		if to == from {
			return
		}
		if err := put(s, records[from:to]); err != nil {
			if f.ctx.Err() == nil {
				f.x.T.Errorf("feed %v: %v", s, err)
			}
			return
		}
		from = to
		f.mu.Lock()
		f.fed[s] = from
		f.more.Broadcast()
		f.mu.Unlock()
	}
}

// next waits until more may be fed and returns up to where; from once the test is
// over.
func (f *feed) next(s model.Split, from, n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.ctx.Err() != nil {
			return from
		}
		if to := min(n, int(f.allowed*float64(n))); to > from {
			return min(to, from+500)
		}
		f.more.Wait()
	}
}

// left is how many records have not been fed.
func (f *feed) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for s, records := range f.x.Input {
		n += len(records) - f.fed[s]
	}
	return n
}

func (f *feed) random(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

func (f *feed) toTopic(s model.Split, records []model.Record) error {
	var out []*kgo.Record
	for i := range records {
		r := &records[i]
		r.Where = fmt.Sprintf("%s/%d@%d", f.x.topic, s.Number, r.Pos)
		out = append(out, &kgo.Record{Topic: f.x.topic, Partition: int32(s.Number), Value: r.Payload})
	}
	return f.kafka.ProduceSync(f.ctx, out...).FirstErr()
}

// toHTTP posts records, again and again under one number, until it is told that they
// are kept.
func (f *feed) toHTTP(_ model.Split, records []model.Record) error {
	var body bytes.Buffer
	for i := range records {
		records[i].Where = fmt.Sprint(records[i].Pos + 1) // the log counts from 1
		body.Write(records[i].Payload)
		body.WriteByte('\n')
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		code, answer, err := f.post(body.Bytes(), records[0].Pos+1)
		switch {
		case err == nil && code == http.StatusOK:
			return nil
		case err == nil && code != http.StatusTooManyRequests && code < 500:
			return fmt.Errorf("post: %d: %s", code, answer)
		}
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-tick.C:
		}
	}
}

func (f *feed) post(body []byte, sequence int64) (int, []byte, error) {
	req, err := http.NewRequestWithContext(f.ctx, "POST", "http://"+f.x.address+"/rows", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Frazil-Producer", "proof")
	req.Header.Set("Frazil-Sequence", fmt.Sprint(sequence))
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// toFiles writes a file under the next name: whole, compressed, or growing from the
// middle of a line.
func (f *feed) toFiles(s model.Split, records []model.Record) error {
	dir := map[string]string{"lines": "in", "side": "side"}[s.Source]
	how := f.random(3)
	name := fmt.Sprintf("%s/%08d.ndjson", dir, records[0].Pos)
	if how == 0 {
		name += ".gz"
	}
	var text bytes.Buffer
	for i := range records {
		records[i].Where = fmt.Sprintf("%s:%d", name, i+1)
		text.Write(records[i].Payload)
		text.WriteByte('\n')
	}
	whole := text.Bytes()
	switch how {
	case 0:
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(whole)
		if err := w.Close(); err != nil {
			return err
		}
		return f.publish(dir, name, packed.Bytes())
	case 1:
		return f.publish(dir, name, whole)
	}
	half := f.random(len(whole))
	if err := f.publish(dir, name, whole[:half]); err != nil {
		return err
	}
	file, err := os.OpenFile(f.x.Path(name), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(whole[half:])
	return err
}

// publish makes a file appear at once.
func (f *feed) publish(dir, name string, text []byte) error {
	next := f.x.Path("." + dir)
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.x.Path(name))
}

// Allow lets so much of each split be fed, from 0 to 1; it does not wait for it.
func (x *Trial) Allow(fraction float64) { x.feed.allow(fraction) }

// Left is how many records have not been fed.
func (x *Trial) Left() int { return x.feed.left() }

// Finish runs the program while the rest is fed, kills it, and runs it to the end of
// its sources.
func (x *Trial) Finish() {
	x.T.Helper()
	x.Allow(1)
	r := x.Start(nil, "run", x.File)
	r.Until("everything is fed", func() bool { return x.Left() == 0 || x.T.Failed() })
	r.Kill()
	x.ToEnd()
}
