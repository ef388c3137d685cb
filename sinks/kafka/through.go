package kafka

import (
	"context"
	"fmt"
	"sync"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/franz-go/pkg/kgo"
)

// through sends records as they come. The client repeats what was not answered, in
// order and without doubles, as long as the process lives.
type through struct {
	rows   *rows
	client *kgo.Client
	names  map[string]string
	ctx    context.Context // of the Write under way
	// life ends with Close.
	life context.Context
	end  context.CancelFunc

	mu  sync.Mutex
	err error // the first of a record that could not be sent
}

func newThrough(env *dataflow.Env, in component.SinkIn, l *layout, enc *encoding, cfg Config) (dataflow.Writer, error) {
	cl, err := newClient(env, cfg, append(producerOptions(cfg, env.Memory), kgo.ProducerLinger(cfg.Linger.D()))...)
	if err != nil {
		return nil, err
	}
	w := &through{client: cl, names: map[string]string{}}
	w.life, w.end = context.WithCancel(context.Background())
	t := newTopics(env, cfg, cl)
	w.rows = newRows(env, in.Input, l, cfg, func(name string) (bool, error) { return t.there(w.ctx, name) })
	w.rows.encode(enc, func() context.Context { return w.ctx })
	return w, nil
}

// Write implements dataflow.Writer. It waits while too much is under way.
func (w *through) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	w.ctx = ctx
	if err := w.failed(); err != nil {
		return nil, err
	}
	var slab []byte
	return w.rows.each(b, func(record []byte) error {
		if len(slab)+len(record) > cap(slab) {
			slab = make([]byte, 0, max(64<<10, len(record)))
		}
		from := len(slab)
		slab = append(slab, record...)
		rec := &kgo.Record{}
		if err := (&reader{b: slab[from:]}).record(rec, w.names); err != nil {
			return err
		}
		w.client.Produce(w.life, rec, w.sent)
		return ctx.Err()
	})
}

func (w *through) sent(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = classify(fmt.Errorf("send to topic %q: %w", r.Topic, err))
	}
}

func (w *through) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Prepare waits until the brokers have all records: then the epoch may end.
func (w *through) Prepare(ctx context.Context, _ dataflow.Epoch) (dataflow.Pending, error) {
	if err := w.client.Flush(ctx); err != nil {
		return nil, err
	}
	return nil, w.failed()
}

// Close gives up what is under way.
func (w *through) Close() error {
	w.end()
	w.client.Close()
	w.rows.release()
	return nil
}

var _ dataflow.Writer = (*through)(nil)
