package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sendFunc makes a function a Sender.
type sendFunc func(ctx context.Context, d *Delivery) error

func (f sendFunc) Send(ctx context.Context, d *Delivery) error { return f(ctx, d) }
func (f sendFunc) Close() error                                { return nil }

func deliverEnv(fs state.FS) *dataflow.Env {
	env := newEnv(fs)
	now := time.Unix(1_000_000, 0)
	env.Pipeline, env.Log = "p", slog.New(slog.DiscardHandler)
	env.Now = func() time.Time { now = now.Add(time.Second); return now }
	return env
}

func positions(n int) dataflow.Positions {
	return dataflow.Positions{"in": {"0": dataflow.Position(fmt.Sprintf("%06d", n))}}
}

func commitOf(e, from, to int, parts ...dataflow.Part) dataflow.Commit {
	c := dataflow.Commit{Epoch: dataflow.Epoch(e), From: positions(from), At: positions(to), Plan: "plan", Parts: parts}
	if from == 0 {
		c.From = dataflow.Positions{}
	}
	return c
}

// all delivers the rows that are not done, and fails at row stop.
func all(got *[]string, stop int64) sendFunc {
	return func(_ context.Context, d *Delivery) error {
		return d.Each(func(n int64, row []byte) error {
			if n < d.Done(0) {
				return nil
			}
			if n == stop {
				return errors.New("stopped")
			}
			*got = append(*got, string(row))
			d.Delivered(0, n+1)
			return nil
		})
	}
}

func TestADeliveryGoesOnWhereItStopped(t *testing.T) {
	fs := vfs.NewMem()
	env := deliverEnv(fs)
	c := commitOf(1, 0, 5, stage(t, env, 1, "a", "b", "c", "d", "e"))
	var got []string
	var ids []string
	for _, stop := range []int64{2, 4, -1} {
		send := all(&got, stop)
		k := NewCommitter(env, "t", sendFunc(func(ctx context.Context, d *Delivery) error {
			ids = append(ids, d.ID)
			return send(ctx, d)
		}))
		if err := k.Commit(t.Context(), c); (err == nil) != (stop < 0) {
			t.Fatalf("stop at %d: %v", stop, err)
		}
	}
	if strings.Join(got, "") != "abcde" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("rows %v, ids %v", got, ids)
	}
	// It is done: nothing is sent again, and the staged rows are gone.
	must(t, NewCommitter(env, "t", all(&got, -1)).Commit(t.Context(), c))
	if len(got) != 5 {
		t.Errorf("rows %v", got)
	}
	names, err := fs.List(Dir(env))
	must(t, err)
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, suffix) }) {
		t.Errorf("files %v", names)
	}
	// The next one has another id and begins at its first row.
	got = nil
	c = commitOf(2, 5, 7, stage(t, env, 2, "f", "g"))
	must(t, NewCommitter(env, "t", all(&got, -1)).Commit(t.Context(), c))
	if strings.Join(got, "") != "fg" {
		t.Errorf("rows %v", got)
	}
}

// Other rows under the same epoch, as of another process on a copy of the state.
func TestOtherRowsHaveAnotherID(t *testing.T) {
	env := deliverEnv(vfs.NewMem())
	var ids []string
	for range 2 {
		c := commitOf(1, 0, 1, stage(t, env, 1, "a"))
		k := NewCommitter(env, "t", sendFunc(func(_ context.Context, d *Delivery) error {
			ids = append(ids, d.ID)
			return errors.New("not now")
		}))
		if err := k.Commit(t.Context(), c); err == nil {
			t.Fatal("it was done")
		}
	}
	if ids[0] == ids[1] {
		t.Errorf("ids %v", ids)
	}
}

// A row that was refused is noted once, also when the process was killed in the middle
// of its line and before it could say that it is done.
func TestARefusedRowIsNotedOnce(t *testing.T) {
	fs := vfs.NewMem()
	env := deliverEnv(fs)
	c := commitOf(1, 0, 3, stage(t, env, 1, "a", "b", "c"))
	refuse := func(rows ...int64) sendFunc {
		return func(_ context.Context, d *Delivery) error {
			for _, n := range rows {
				r := Refusal{Row: n, Reason: "no", Detail: "never", To: "x"}
				r.SetPayload([]byte{'a' + byte(n), 0xff})
				if err := d.Refuse(r); err != nil {
					return err
				}
			}
			if len(rows) < 3 {
				return errors.New("killed")
			}
			return nil
		}
	}
	if err := NewCommitter(env, "t", refuse(0, 1)).Commit(t.Context(), c); err == nil {
		t.Fatal("it was done")
	}
	names, err := fs.List(RefusedDir(env))
	must(t, err)
	path := fs.PathJoin(RefusedDir(env), names[0])
	b, err := readFile(fs, path)
	must(t, err)
	must(t, replace(fs, path, b[:len(b)-10], true)) // The second line is cut short.
	k := NewCommitter(env, "t", refuse(0, 1, 2))
	must(t, k.Commit(t.Context(), c))
	if n := k.(dataflow.Refuser).Refused(); n != 3 {
		t.Errorf("%d rows were refused, want 3", n)
	}
	b, err = readFile(fs, path)
	must(t, err)
	var got []string
	for line := range strings.Lines(string(b)) {
		var r Refusal
		must(t, json.Unmarshal([]byte(line), &r))
		got = append(got, fmt.Sprintf("%d %s %s %s %q %s/%s %d", r.Row, r.Reason, r.Detail, r.To, r.PayloadBytes, r.Pipeline, r.Sink, r.Epoch))
	}
	want := []string{`0 no never x "a\xff" p/out 1`, `1 no never x "b\xff" p/out 1`, `2 no never x "c\xff" p/out 1`}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// Refused rows count in the record of the target, once: also those that a process noted
// which was killed before the record was written, and when the next one refuses none.
func TestRefusedRowsAreCounted(t *testing.T) {
	fs := vfs.NewMem()
	env := deliverEnv(fs)
	refuse := func(n int64, rows int, err error) sendFunc {
		return func(_ context.Context, d *Delivery) error {
			if rows == 0 {
				return err
			}
			return errors.Join(d.Refuse(Refusal{Row: n, Rows: rows, Reason: "no", Detail: "never", To: "x"}), err)
		}
	}
	commit := func(c dataflow.Commit, want int64, sends ...sendFunc) {
		t.Helper()
		for i, s := range sends {
			k := NewCommitter(env, "t", s)
			if err := k.Commit(t.Context(), c); (err == nil) != (i == len(sends)-1) {
				t.Fatalf("try %d: %v", i, err)
			}
			if err := k.Commit(t.Context(), c); i == len(sends)-1 && err != nil { // done
				t.Fatal(err)
			}
			if n := k.(dataflow.Refuser).Refused(); i == len(sends)-1 && n != want {
				t.Errorf("%d rows were refused, want %d", n, want)
			}
		}
		k := NewCommitter(env, "t", nil)
		if _, err := k.Committed(t.Context()); err != nil || k.(dataflow.Refuser).Refused() != want {
			t.Errorf("the next process reads %d (%v), want %d", k.(dataflow.Refuser).Refused(), err, want)
		}
	}
	killed := errors.New("killed")
	commit(commitOf(1, 0, 3, stage(t, env, 1, "a", "b", "c")), 2, refuse(1, 2, killed), refuse(0, 0, killed), refuse(0, 0, nil))
	commit(commitOf(2, 3, 4, stage(t, env, 2, "d")), 2, refuse(0, 0, nil))
	commit(commitOf(3, 4, 5, stage(t, env, 3, "e")), 3, refuse(0, 1, nil))
}

// The ledger keeps the newest clock decisions, and says that there were more.
func TestTheLedgerIsBounded(t *testing.T) {
	env := deliverEnv(vfs.NewMem())
	k := NewCommitter(env, "t", all(new([]string), -1))
	for e := 1; e <= 11; e++ {
		c := commitOf(e, e-1, e)
		for i := range 100 {
			c.Clock = append(c.Clock, dataflow.ClockDecision{Source: "in", Split: "0", Pos: int64(e*100 + i)})
		}
		must(t, k.Commit(t.Context(), c))
		held, err := k.Committed(t.Context())
		must(t, err)
		if held.ClockComplete != (e <= 10) || len(held.Clock) != min(e, 10)*100 || held.Clock[len(held.Clock)-1].Pos != int64(e*100+99) {
			t.Fatalf("after %d: %d decisions, complete %v", e, len(held.Clock), held.ClockComplete)
		}
	}
}

// Positions that cannot be read, or of a newer version, end the pipeline before anything
// is sent again.
func TestPositionsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{`{"v": 1, "posi`: "cannot be read", `{"v": 2}`: "of version 2"} {
		env := deliverEnv(vfs.NewMem())
		var got []string
		k := NewCommitter(env, "t", all(&got, -1))
		c := commitOf(1, 0, 1, stage(t, env, 1, "a"))
		must(t, replace(env.FS, newLedger(env).path, []byte(text), true))
		for _, err := range []error{k.Commit(t.Context(), c), func() error { _, err := k.Committed(t.Context()); return err }()} {
			if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
		}
		if got != nil {
			t.Errorf("sent %v", got)
		}
	}
	// Progress that cannot be read costs deliveries that are repeated.
	env := deliverEnv(vfs.NewMem())
	c := commitOf(1, 0, 1, stage(t, env, 1, "a"))
	must(t, replace(env.FS, env.FS.PathJoin(Dir(env), "progress.json"), []byte("{"), false))
	var got []string
	must(t, NewCommitter(env, "t", all(&got, -1)).Commit(t.Context(), c))
	if len(got) != 1 {
		t.Errorf("sent %v", got)
	}
	if _, err := env.FS.Stat(newLedger(env).path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
}
