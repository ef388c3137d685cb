package engine

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Resend asks for a row of the quarantine to be read again by its source.
type Resend struct {
	ID string `json:"id"`
	// Raw is a payload for the source's decode block, in place of the one that was
	// kept; Row is a JSON object with all columns of the source instead. Neither:
	// the row as it was kept.
	Raw []byte          `json:"raw,omitempty"`
	Row json.RawMessage `json:"row,omitempty"`
	// Columns is a JSON object with the columns that do not come from the payload.
	Columns json.RawMessage `json:"columns,omitempty"`
	// AtSource accepts that a row which an operator or sink has refused begins
	// anew at its source: everything before and beside that step gets it again.
	AtSource bool `json:"at_source,omitempty"`
}

// Resent is what became of a Resend.
type Resent struct {
	ID string `json:"id"`
	// Sent: the payload is durable and will be read, exactly once. Again: it had been
	// sent before.
	Sent  bool `json:"sent,omitempty"`
	Again bool `json:"again,omitempty"`
	// Reason is a stable code of why it was not sent: not_there, not_durable,
	// no_payload, no_decode, at_source, or that of the bad row it would be. Detail
	// is for people.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// ErrNotSettled: what was asked for is under way and was not made durable in time.
var ErrNotSettled = errors.New("it is not durable yet")

// desk is where people ask for something to be done to quarantined rows.
type desk struct {
	g       *Graph
	streams map[string]*fixedStream
	now     func() time.Time
	// lookup finds a row; nil: it is not there. durable is false for one that only
	// the next epoch makes so.
	lookup func(id string) (row *Quarantined, durable bool, err error)
}

func (d *desk) sent(id string) bool {
	for _, f := range d.streams {
		if f.has(id) {
			return true
		}
	}
	return false
}

// resend appends what list asks for to the logs of the sources. sent is told of the
// rows whose payloads are durable.
func (d *desk) resend(list []Resend, sent func(ids []string) error) ([]Resent, error) {
	out := make([]Resent, len(list))
	decoders := map[string]*fixedDecoder{}
	defer func() {
		for _, dec := range decoders {
			dec.release()
		}
	}()
	for _, f := range d.streams {
		if err := f.settle(); err != nil {
			return nil, err
		}
	}
	records := map[string][]*fixedRecord{}
	at := map[string][]int{}
	for i, r := range list {
		out[i].ID = r.ID
		if d.sent(r.ID) {
			out[i].Again = true
			continue
		}
		source, rec, bad, err := d.record(r, decoders)
		if err != nil {
			return nil, err
		}
		if bad != nil {
			out[i].Reason, out[i].Detail = bad.Reason, bad.Detail
			continue
		}
		records[source], at[source] = append(records[source], rec), append(at[source], i)
	}
	var errs []error
	var ids []string
	for source, list := range records {
		if err := d.streams[source].send(list); err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", source, err))
			continue
		}
		for k, i := range at[source] {
			out[i].Sent = true
			ids = append(ids, list[k].ID)
		}
	}
	if len(ids) > 0 {
		errs = append(errs, sent(ids))
	}
	return out, errors.Join(errs...)
}

// record is what is appended for r, or why nothing is.
func (d *desk) record(r Resend, decoders map[string]*fixedDecoder) (source string, rec *fixedRecord, bad *dataflow.Bad, err error) {
	row, durable, err := d.lookup(r.ID)
	switch {
	case err != nil:
		return "", nil, nil, err
	case row == nil:
		return "", nil, &dataflow.Bad{Reason: "not_there", Detail: "the quarantine has no such row: it was sent again, discarded or dropped"}, nil
	case !durable:
		return "", nil, &dataflow.Bad{Reason: "not_durable", Detail: "the row is not durable yet: try again after the next checkpoint"}, nil
	}
	src := d.g.source(row.Source)
	f := d.streams[row.Source]
	if src == nil || f == nil {
		return "", nil, noWayBack(row, src), nil
	}
	rec = &fixedRecord{ID: row.ID, Raw: r.Raw, Columns: r.Columns, Row: r.Row}
	if row.Step != row.Source && !r.AtSource {
		return "", nil, &dataflow.Bad{Reason: "at_source", Detail: fmt.Sprintf("step %s has refused the row, and others have got it: sent again by the source %s, the steps before and beside %s would get it twice. Fix it with a payload of its own and say that this is meant (--at-source), or discard it", row.Step, row.Source, row.Step)}, nil
	}
	if r.Raw == nil && r.Row == nil {
		if bad := asKept(row, src, rec); bad != nil {
			return "", nil, bad, nil
		}
	}
	dec := decoders[src.Name]
	if dec == nil {
		if dec, err = newFixedDecoder(src); err != nil {
			return "", nil, nil, err
		}
		decoders[src.Name] = dec
	}
	cols, bad := dec.decode(rec)
	if bad == nil {
		bad = checkTime(src, cols, dataflow.TimeOf(d.now()))
		releaseAll(cols)
	}
	return src.Name, rec, bad, nil
}

func noWayBack(row *Quarantined, src *Source) *dataflow.Bad {
	switch {
	case row.Source == "":
		return &dataflow.Bad{Reason: "no_payload", Detail: fmt.Sprintf("step %s made the row; no payload of a source stands behind it. Mend what made it, and discard it", row.Step)}
	case src == nil:
		return &dataflow.Bad{Reason: "no_payload", Detail: fmt.Sprintf("its source %s is not in the pipeline any more", row.Source)}
	}
	return &dataflow.Bad{Reason: "no_decode", Detail: fmt.Sprintf("source %s has no decode block, by which a payload would become a row again", row.Source)}
}

// asKept fills rec with what was kept of a row. One that a step behind the source has
// refused must still have all columns of the source.
func asKept(row *Quarantined, src *Source, rec *fixedRecord) *dataflow.Bad {
	if row.Raw != nil {
		rec.Raw = row.Raw
		return nil
	}
	var have map[string]json.RawMessage
	if row.Row == nil || json.Unmarshal(row.Row, &have) != nil {
		return &dataflow.Bad{Reason: "no_payload", Detail: "no payload was kept with the row: give one"}
	}
	for _, f := range src.Schema.Fields() {
		if _, ok := have[f.Name]; !ok {
			return &dataflow.Bad{Reason: "no_payload", Detail: fmt.Sprintf("the row has no column %q any more, which the source %s gives: give a payload", f.Name, src.Name)}
		}
	}
	var err error
	if rec.Row, err = rowPayload(row.Row, src.Schema); err != nil {
		return &dataflow.Bad{Reason: "no_payload", Detail: err.Error()}
	}
	return nil
}

// rowPayload brings a row as it is shown into the form in which JSON is decoded:
// they differ in binary columns, hexadecimal there and base64 here.
func rowPayload(shown json.RawMessage, schema *arrow.Schema) (json.RawMessage, error) {
	binary := false
	for _, f := range schema.Fields() {
		switch {
		case f.Type.ID() == arrow.BINARY:
			binary = true
		case holdsBinary(f.Type):
			return nil, fmt.Errorf("column %q holds binary values inside of others, which are not kept in a form that can be read again: give the payload", f.Name)
		}
	}
	if !binary {
		return shown, nil
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal(shown, &row); err != nil {
		return nil, err
	}
	for _, f := range schema.Fields() {
		var text *string
		if f.Type.ID() != arrow.BINARY || json.Unmarshal(row[f.Name], &text) != nil || text == nil {
			continue
		}
		b, err := hex.DecodeString(*text)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		row[f.Name], _ = json.Marshal(base64.StdEncoding.EncodeToString(b))
	}
	return json.Marshal(row)
}

func holdsBinary(t arrow.DataType) bool {
	if t.ID() == arrow.BINARY {
		return true
	}
	if n, ok := t.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			if holdsBinary(f.Type) {
				return true
			}
		}
	}
	return false
}

// checkTime says whether the source would refuse the event time of a row.
func checkTime(src *Source, cols []arrow.Array, now dataflow.Time) *dataflow.Bad {
	e := src.EventTime
	if e == nil || e.Processing {
		return nil
	}
	col := cols[dataflow.Column(src.Schema, e.Column)].(*array.Timestamp)
	if col.IsNull(0) {
		return &dataflow.Bad{Reason: "null_event_time", Detail: fmt.Sprintf("column %s: expected an event time, got null", e.Column)}
	}
	t := dataflow.Time(col.Value(0))
	switch {
	case t < dataflow.MinEventTime || t > dataflow.MaxEventTime:
		return &dataflow.Bad{Reason: "event_time_out_of_range", Detail: fmt.Sprintf("column %s: expected a year from 1 to 9999", e.Column)}
	case e.MaxAhead > 0 && t > now.Add(e.MaxAhead):
		return &dataflow.Bad{Reason: "future_timestamp", Detail: fmt.Sprintf("column %s: %s is still more than %s ahead of the clock (max_ahead)", e.Column, t, e.MaxAhead)}
	}
	return nil
}

// durableRow reads a row as of the last epoch.
func durableRow(s *state.Store, id string) (row *Quarantined, err error) {
	v, ok := s.View(QuarantineStep)
	if !ok || id == "" || id[0] < firstRowKey {
		return nil, nil
	}
	err = v.Scan(groupOfID(id), []byte(id), append([]byte(id), 0), func(_, val []byte) error {
		row, err = decodeQuarantined(val)
		return err
	})
	return row, err
}

// desk of a running job; the caller holds j.control.
func (j *Job) desk(ctx context.Context) (*desk, *plant, error) {
	j.mu.Lock()
	p := j.mu.plant
	j.mu.Unlock()
	if p == nil {
		return nil, nil, errNotConnected
	}
	d := &desk{g: j.g, streams: j.fixed, now: j.o.Now}
	d.lookup = func(id string) (row *Quarantined, durable bool, err error) {
		var live *Quarantined
		if err := p.ask(ctx, func() { live, _, err = p.quar.store.get(id) }); err != nil || live == nil {
			return nil, false, err
		}
		row, err = durableRow(j.o.Store, id)
		if row == nil {
			return live, false, err
		}
		return row, true, err
	}
	return d, p, nil
}

// ask has the task of the quarantine call f, and waits for it.
func (p *plant) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if err := p.quar.in.ask(func() {
		f()
		close(done)
	}); err != nil {
		return errNotConnected
	}
	select {
	case <-done:
		return nil
	case <-p.over:
		// The task may have ended before it came to f.
		select {
		case <-done:
			return nil
		default:
			return errNotConnected
		}
	case <-ctx.Done():
		return fmt.Errorf("ask the quarantine: %w", ctx.Err())
	}
}

// Resend has rows of the quarantine read again by their sources, exactly once: what
// it says was sent is durable, and leaves the quarantine in the epoch in which it is
// read. Asking again for the same row does nothing. Rows that would be bad again
// are not sent. Any goroutine may call it.
func (j *Job) Resend(ctx context.Context, list []Resend) ([]Resent, error) {
	j.control.Lock()
	defer j.control.Unlock()
	d, p, err := j.desk(ctx)
	if err != nil {
		return nil, err
	}
	out, err := d.resend(list, func(ids []string) error {
		var err error
		asked := p.ask(ctx, func() {
			if err = p.quar.leave(ids); err == nil {
				err = p.quar.room()
			}
		})
		return errors.Join(asked, err)
	})
	if errors.Is(err, errNotConnected) && len(out) > 0 {
		err = nil // They are durable; the next attempt knows of them.
	}
	return out, err
}

// SentAgain says whether a row of the quarantine was sent again and not yet read.
func (j *Job) SentAgain(id string) bool {
	j.control.Lock()
	defer j.control.Unlock()
	return (&desk{streams: j.fixed}).sent(id)
}

// Discard drops rows of the quarantine, and counts them. It returns how many were
// there, once that is durable.
func (j *Job) Discard(ctx context.Context, ids []string) (int, error) {
	n, p, target, err := j.discard(ctx, ids)
	if err != nil || n == 0 {
		return n, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		j.mu.Lock()
		same, m := j.mu.plant == p, j.mu.manifest
		j.mu.Unlock()
		switch {
		case !same:
			return 0, fmt.Errorf("%w: the pipeline has started again meanwhile", ErrNotSettled)
		case m != nil && m.Quarantine != nil && m.Quarantine.Discarded >= target:
			return n, nil
		}
		j.Checkpoint()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: no checkpoint came; they are gone if the next one does", ErrNotSettled)
		}
	}
}

func (j *Job) discard(ctx context.Context, ids []string) (n int, p *plant, target int64, err error) {
	j.control.Lock()
	defer j.control.Unlock()
	d, p, err := j.desk(ctx)
	if err != nil {
		return 0, nil, 0, err
	}
	var kept []string
	for _, id := range ids {
		if !d.sent(id) {
			kept = append(kept, id)
		}
	}
	asked := p.ask(ctx, func() {
		if n, err = p.quar.discard(kept); err == nil {
			err = p.quar.room()
		}
		target = p.quar.store.sum.Discarded
	})
	return n, p, target, errors.Join(asked, err)
}

// StoppedQuarantine is the quarantine of a pipeline that is not running.
type StoppedQuarantine struct {
	store *state.Store
	m     *checkpoint.Manifest
	d     *desk
}

// OpenQuarantine opens the quarantine of a pipeline that is not running. The caller
// holds its store, and closes what it gets before it.
func OpenQuarantine(g *Graph, s *state.Store, walDir string) (*StoppedQuarantine, error) {
	raw, err := s.Manifest()
	if err != nil {
		return nil, err
	}
	m, err := checkpoint.Decode(raw)
	if err != nil {
		return nil, err
	}
	if m != nil && m.Pipeline != g.Name {
		return nil, fmt.Errorf("the state directory belongs to the pipeline %q, not to %q", m.Pipeline, g.Name)
	}
	q := &StoppedQuarantine{store: s, m: m, d: &desk{g: g, streams: map[string]*fixedStream{}, now: time.Now}}
	q.d.lookup = func(id string) (*Quarantined, bool, error) {
		row, err := durableRow(s, id)
		return row, true, err
	}
	for _, src := range g.Sources {
		if m == nil || !src.resendable() || m.Sources[src.Name] == nil {
			continue
		}
		f, err := newFixedStream(src, walDir, s.FS(), time.Now)
		if err == nil {
			st, from := m.Sources[src.Name], ""
			if sp := st.Splits[fixedSplit]; sp != nil {
				from = sp.Position
			}
			err = f.attach(newTracker(st.Watermark), from, nil)
		}
		if err != nil {
			return nil, errors.Join(err, q.Close())
		}
		q.d.streams[src.Name] = f
	}
	return q, nil
}

// Rows visits the rows.
func (q *StoppedQuarantine) Rows(visit func(Quarantined) error) error {
	return ReadQuarantine(q.store, func(row Quarantined) error {
		row.SentAgain = q.d.sent(row.ID)
		return visit(row)
	})
}

// Resend is as [Job.Resend]: the next run reads what was sent.
func (q *StoppedQuarantine) Resend(list []Resend) ([]Resent, error) {
	return q.d.resend(list, func([]string) error { return nil })
}

// Discard is as [Job.Discard].
func (q *StoppedQuarantine) Discard(ids []string) (int, error) {
	if q.m == nil {
		return 0, nil
	}
	kv, err := q.store.KV(QuarantineStep, state.Groups{Lo: 0, Hi: state.NumGroups})
	if err != nil {
		return 0, err
	}
	s, err := loadQuarantine(kv)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		if q.d.sent(id) {
			continue
		}
		found, err := s.take(id, byDiscarding)
		if err != nil {
			return 0, err
		}
		if found {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	if err := s.save(); err != nil {
		return 0, err
	}
	counts := s.sum.QuarantineCounts
	q.m.Quarantine = &counts
	raw, err := q.m.Encode()
	if err != nil {
		return 0, err
	}
	return n, q.store.Write([]*state.Delta{kv.Freeze()}, raw)
}

// Close closes what OpenQuarantine has opened.
func (q *StoppedQuarantine) Close() error {
	var errs []error
	for _, f := range q.d.streams {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// RowPayload is the row of a record that its source has decoded and then refused,
// in the form of [Source.NewRowDecoder].
func RowPayload(g *Graph, q *Quarantined) (json.RawMessage, error) {
	src := g.source(q.Source)
	if src == nil {
		return nil, fmt.Errorf("its source %s is not in the pipeline any more", q.Source)
	}
	return rowPayload(q.Row, src.Schema)
}
