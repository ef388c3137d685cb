package dataflow

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// Operator turns input batches into output batches. The engine calls one
// Operator from one goroutine, in the order its inputs deliver.
type Operator interface {
	// Process handles one batch from input port. It borrows b: retain what
	// must outlive the call. An error fails the task and the pipeline restarts
	// from the last epoch; a bad row is no error, it goes to the "bad" port.
	Process(ctx context.Context, port int, b arrow.RecordBatch, out Emitter) error
	// Close frees what the operator holds. It may be called once, after the
	// last Process, also after an error.
	Close() error
}

// WatermarkHandler: OnWatermark runs when the minimum over live inputs rises,
// and once before the first batch after a restore. Afterwards the engine
// passes on wm less the operator's Delay (its plan states it), so emit here
// what must precede it.
type WatermarkHandler interface {
	OnWatermark(ctx context.Context, wm Time, out Emitter) error
}

// BarrierHandler: OnBarrier writes what the operator holds outside its KV into
// it, or emits it. The KV is frozen right after.
type BarrierHandler interface {
	OnBarrier(ctx context.Context, e Epoch, out Emitter) error
}

// Unwritten is an Operator that holds memory beside its KV which a barrier gives
// back.
type Unwritten interface {
	// UnwrittenBytes estimates the memory that the next OnBarrier gives back, in
	// bytes. What stays does not count, changed or not, since an epoch would not
	// help. It must be cheap: the engine asks after every batch and watermark, in the
	// goroutine of the task. Much of it brings an epoch before its time and pauses
	// the sources, as what waits in a KV does.
	UnwrittenBytes() int64
}

// Emitter takes over one reference to b. It blocks while the port is full. A
// batch without rows is dropped. port is the index in the step's list of ports.
type Emitter interface {
	Emit(ctx context.Context, port int, b arrow.RecordBatch) error
}

// EmitFunc makes a function an Emitter.
type EmitFunc func(ctx context.Context, port int, b arrow.RecordBatch) error

// Emit calls f.
func (f EmitFunc) Emit(ctx context.Context, port int, b arrow.RecordBatch) error {
	return f(ctx, port, b)
}
