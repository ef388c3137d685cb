package ingest

import (
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"go.opentelemetry.io/otel/trace"
)

// Request is what a producer sends at once. It belongs to the stream until Done
// is called.
type Request struct {
	// Records are payloads for the source's decode block, one row each. Exactly
	// one of Records and Batch is set.
	Records [][]byte
	// Batch holds rows that are typed already, in the schema of the decode block.
	// The stream takes over the reference.
	Batch arrow.RecordBatch
	// Bad are further records, known to be bad already, in the order of their
	// indexes. An index counts all records of the request: Records, or the rows of
	// Batch, take those that are left.
	Bad []BadRecord
	// Meta appends the metadata columns of record i, one value to each builder in
	// the order of Spec.Meta; nil: nulls. It is called from a goroutine of the
	// stream, in the order of the records.
	Meta func(b []array.Builder, i int)
	// Key names the request; a later one with the same key within the time that
	// keys are kept is answered with the first one's result and adds nothing, if the
	// first one added something. "": none.
	Key string
	// Producer and Sequence are another way to recognise a retry, used if there is no
	// Key: a producer numbers its requests from 1. One with a number that was seen is
	// a retry and answered with the first one's result, as long as that is remembered,
	// and later with Result.Forgotten and no counts. Numbers may come out of order by
	// up to 1,023; one that is further behind the highest counts as seen. "": not
	// used.
	Producer string
	Sequence uint64
	// Digest tells requests with one key apart that are no retries.
	Digest uint64
	// Atomic: one record that cannot be decoded refuses all.
	Atomic bool
	// KeepBad: a record that cannot be decoded is accepted, and leaves by the
	// source's port bad.
	KeepBad bool
	// Trace is the span that the request belongs to, if that is sampled: how long it
	// takes until it is durable and until it is committed are spans below it.
	Trace trace.SpanContext
	// Done is called once, from a goroutine of the stream, in the order of Submit but
	// for retries and the answers of ack: commit; it must not block.
	Done func(Result, error)

	// key is the hash of what names the request, and producer of who numbers it.
	key, producer wal.Key
	keyed         bool
	size          int64
	submitted     time.Time // with Trace
}

// Result says what became of a request.
type Result struct {
	// First and Last are the sequence numbers that it got, 0 for none.
	First uint64 `json:"first_sequence,omitempty"`
	Last  uint64 `json:"last_sequence,omitempty"`
	// Accepted counts its records that are durable.
	Accepted int `json:"accepted"`
	// Rejected lists those that are not, by index.
	Rejected []Rejection `json:"rejected,omitempty"`
	// Replayed: the request is a retry, and this is what the first one was
	// answered.
	Replayed bool `json:"-"`
	// Forgotten: the request is a retry of one that was accepted so long ago that
	// its result is not remembered: nothing was added.
	Forgotten bool `json:"-"`
}

// BadRecord is a record of a request that its source could not read.
type BadRecord struct {
	Index int
	Bad   dataflow.Bad
	// Raw is what is kept of it with Request.KeepBad.
	Raw []byte
}

// Rejection is a record that was not accepted.
type Rejection struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

var (
	// ErrRejected: the request is atomic and a record of it cannot be decoded;
	// the Result lists which.
	ErrRejected = errors.New("a record was rejected, so that none was accepted")
	// ErrOtherRequest: the key was used by another request.
	ErrOtherRequest = errors.New("the key was used with other content")
	// ErrClosed: the stream is closed.
	ErrClosed = errors.New("the stream is closed")
	// ErrUnavailable: the log cannot be written. Whether anything of the request was
	// kept is not known; a retry by the same key will tell.
	ErrUnavailable = errors.New("the write-ahead log cannot be written now")
	// ErrNotCommitted: the records are durable, and the stream was closed before they
	// were committed, which ack: commit asks for. They will be after the next start.
	ErrNotCommitted = errors.New("accepted and durable, but not committed before the stream was closed")
	// ErrPreview: nothing that a preview takes is kept.
	ErrPreview = errors.New("the pipeline runs as a preview, which keeps nothing")
)

// BusyError refuses a request for now: nothing of it was kept.
type BusyError struct {
	// Reason is a stable code: bytes, rows, age, queue, disk_full, retry.
	Reason string
	// RetryAfter is when trying again may help.
	RetryAfter time.Duration
	Detail     string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("refused for now (%s): %s", e.Reason, e.Detail)
}
