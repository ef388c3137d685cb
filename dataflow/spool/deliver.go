package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
)

// Sender delivers rows to a target that can hold no positions: a webhook, an MQTT
// broker.
type Sender interface {
	// Send delivers all rows of d but those that are done, and returns when the target
	// has acknowledged them. After an error it is called again with the same rows,
	// maybe by another process.
	Send(ctx context.Context, d *Delivery) error
	io.Closer
}

// Delivery is the rows of one commit.
type Delivery struct {
	// ID is the same whenever these rows are delivered, in whatever process, and no
	// other rows have it.
	ID string

	env     *dataflow.Env
	parts   []dataflow.Part
	path    string
	refused *refusals
	now     func() time.Time

	mu      sync.Mutex
	done    map[int]int64
	written time.Time
}

// Each calls visit with each row and its number, from 0. A row stays as it is.
func (d *Delivery) Each(visit func(n int64, row []byte) error) error {
	n := int64(0)
	return Each(d.env, d.parts, func(row []byte) error {
		err := visit(n, row)
		n++
		return err
	})
}

// Done is the number of the first row of a lane that may not be delivered yet. Lanes
// are the sender's: rows of one are delivered in order.
func (d *Delivery) Done(lane int) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[lane]
}

// progressEvery is how much of what was delivered a process that is killed may deliver
// again.
const progressEvery = 50 * time.Millisecond

// Delivered says that all rows of a lane before next are delivered or refused. A
// process that is killed soon after may forget it. It is safe for concurrent use.
func (d *Delivery) Delivered(lane int, next int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[lane] = next
	if now := d.now(); now.Sub(d.written) >= progressEvery {
		d.written = now
		d.save()
	}
}

// progress is what is remembered of a delivery that is under way.
type progress struct {
	ID   string        `json:"id"`
	Done map[int]int64 `json:"done"`
}

// save writes the progress. If it cannot be written, more is delivered again.
func (d *Delivery) save() {
	b, err := json.Marshal(progress{d.ID, d.done})
	if err == nil {
		err = replace(d.env.SpoolFS(), d.path, b, false)
	}
	if err != nil {
		d.env.Log.Warn("what was delivered could not be noted", "error", err)
	}
}

// Refuse notes a row that the target will never take, durably and once. It is safe for
// concurrent use.
func (d *Delivery) Refuse(r Refusal) error { return d.refused.add(r) }

// deliverer is the Committer of a target that can hold no positions.
type deliverer struct {
	env    *dataflow.Env
	target dataflow.Target
	sender Sender
	ledger *ledger
	// refused is Record.Refused as last read or written.
	refused atomic.Int64
}

// NewCommitter makes a committer that delivers staged rows by s: at least once, since
// what a target has taken before a process was killed may come again, with the same
// Delivery.ID and numbers. The positions lie in a file beside the staged rows.
func NewCommitter(env *dataflow.Env, target dataflow.Target, s Sender) dataflow.Claimer {
	return &deliverer{env: env, target: target, sender: s, ledger: newLedger(env)}
}

// Target implements dataflow.Committer.
func (k *deliverer) Target() dataflow.Target { return k.target }

// Close implements dataflow.Committer.
func (k *deliverer) Close() error { return k.sender.Close() }

// Committed implements dataflow.Committer.
func (k *deliverer) Committed(context.Context) (dataflow.Committed, error) {
	held, err := k.ledger.read()
	if err == nil {
		k.refused.Store(held.Refused)
	}
	return held.committed(), err
}

// Refused implements dataflow.Refuser.
func (k *deliverer) Refused() int64 { return k.refused.Load() }

// Commit implements dataflow.Committer.
func (k *deliverer) Commit(ctx context.Context, c dataflow.Commit) error {
	held, err := k.ledger.read()
	if err != nil {
		return err
	}
	switch dataflow.DecideCommit(held.committed(), c) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		return fmt.Errorf("%s holds %s, expected %s: %w", k.ledger.path, held.Positions, c.From, dataflow.ErrFenced)
	}
	d := k.delivery(c)
	if len(c.Parts) > 0 {
		err := k.sender.Send(ctx, d)
		d.mu.Lock()
		d.save() // What is done stays done when the rest is tried again.
		d.mu.Unlock()
		n, closed := d.refused.close()
		if closed != nil && err == nil {
			err = closed
		}
		held.Refused += n
		if n > 0 && err == nil {
			k.env.Log.Warn("rows were refused for good; they are in files beside the spool, with the reasons", "target", k.target, "rows", n, "folder", RefusedDir(k.env))
		}
		if err != nil {
			return err
		}
	}
	if err := k.ledger.write(held.after(c, k.env)); err != nil {
		return err
	}
	k.refused.Store(held.Refused)
	if err := Sweep(k.env, c.Epoch); err != nil {
		k.env.Log.Warn("delivered rows could not be removed from the spool; the next commit tries again", "error", err)
	}
	return nil
}

// delivery is c's, with what is remembered of an earlier try.
func (k *deliverer) delivery(c dataflow.Commit) *Delivery {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", k.env.Pipeline, k.env.Step)
	for _, p := range c.Parts {
		fmt.Fprintf(h, " %q", p.Data)
	}
	d := &Delivery{ID: hex.EncodeToString(h.Sum(nil)[:16]), env: k.env, parts: c.Parts, now: k.env.Now, done: map[int]int64{}}
	fs := k.env.SpoolFS()
	d.path = fs.PathJoin(Dir(k.env), "progress.json")
	d.refused = &refusals{env: k.env, name: fmt.Sprintf("%020d-%s.ndjson", c.Epoch, d.ID), delivery: d.ID, epoch: c.Epoch}
	var p progress
	// One that cannot be read costs deliveries that are repeated, and nothing else.
	if b, err := readFile(fs, d.path); err == nil && json.Unmarshal(b, &p) == nil && p.ID == d.ID && p.Done != nil {
		d.done = p.Done
	}
	return d
}

// Claim implements dataflow.Claimer. It tells processes apart that share the folder;
// one on a copy of it is not seen.
func (k *deliverer) Claim(_ context.Context, claim dataflow.Claim) error {
	held, err := k.ledger.read()
	if err != nil {
		return err
	}
	switch dataflow.DecideClaim(held.Claim, claim) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		return fmt.Errorf("claim %d of %s: %w", claim.Token, k.ledger.path, dataflow.ErrFenced)
	}
	held.Record = held.Claimed(claim, k.env.Now())
	return k.ledger.write(held)
}
