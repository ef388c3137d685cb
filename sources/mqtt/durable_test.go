package mqtt

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/state/wal"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lookingWire calls look before it is told that messages are acknowledged.
type lookingWire struct {
	look  func(messages int)
	acked chan int
}

func (w *lookingWire) acknowledge(ms []message) {
	w.look(len(ms))
	w.acked <- len(ms)
}

func (w *lookingWire) replaced() bool { return false }

// I11: whenever messages are acknowledged to the broker, a power loss at that moment
// leaves them in the log.
func TestNothingIsAcknowledgedBeforeItIsSynced(t *testing.T) {
	mem, dir := vfs.NewCrashableMem(), t.TempDir()
	// A disk that is slow enough for an acknowledgement that does not wait for it.
	early := make(chan struct{}, 1)
	slow := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			select {
			case <-early:
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	}))
	cfg, decode := DefaultConfig(), codec.Config{Text: &codec.TextConfig{}}
	decode.Text.SetDefaults()
	cfg.Broker, cfg.Topics, cfg.ClientID = "mqtt://127.0.0.1:1", []string{"t/#"}, "c" // Nobody is there.
	env := &dataflow.Env{
		Pipeline: "p", Step: "in", Tasks: 1, Now: time.Now, WALDir: dir, FS: slow, Memory: 64 << 20, Log: slog.New(slog.DiscardHandler),
		NewDecoder: func() (dataflow.Decoder, error) { return decode.New(nil) },
	}
	srv, err := serve(env, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}()
	var told atomic.Int64
	wire := &lookingWire{acked: make(chan int, 100)}
	wire.look = func(n int) {
		select {
		case early <- struct{}{}:
		default:
		}
		have := durableRecords(t, mem.CrashClone(vfs.CrashCloneCfg{}), filepath.Join(dir, "in"))
		if all := told.Add(int64(n)); have < all {
			t.Errorf("%d messages are acknowledged, %d are in the log after a power loss", all, have)
		}
	}
	const messages = 20
	for i := range messages {
		srv.lanes[0].put(message{topic: "t/x", payload: []byte("text"), via: wire, id: uint16(i + 1), qos: 1})
		<-wire.acked
	}
	if n := told.Load(); n != messages {
		t.Fatalf("%d messages were acknowledged, want %d", n, messages)
	}
}

// durableRecords counts the records of a log.
func durableRecords(t *testing.T, fs vfs.FS, dir string) int64 {
	l, err := wal.Open(dir, wal.Options{FS: fs})
	if err != nil {
		t.Errorf("open the log after a power loss: %v", err)
		return 0
	}
	defer func() { _ = l.Close() }()
	return int64(l.Next() - 1)
}
