package ingest

import (
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
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
	// keys are kept is answered with the first one's result and adds nothing. "":
	// none.
	Key string
	// Producer and Sequence are another way to recognise a retry: a producer numbers
	// its requests from 1, each higher than the one before. A request with a number
	// that was seen is a retry: it is answered with the first one's result as long as
	// that is remembered, and later with Result.Forgotten and no counts. "": not used.
	Producer string
	Sequence uint64
	// Digest tells requests with one key apart that are no retries.
	Digest uint64
	// Atomic: one record that cannot be decoded refuses all.
	Atomic bool
	// KeepBad: a record that cannot be decoded is accepted, and leaves by the
	// source's port bad.
	KeepBad bool
	// Done is called once, from a goroutine of the stream, in the order of
	// Submit; it must not block.
	Done func(Result, error)
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
)

// BusyError refuses a request for now: nothing of it was kept.
type BusyError struct {
	// Reason is a stable code: bytes, rows, age, disk_full.
	Reason string
	// RetryAfter is when trying again may help.
	RetryAfter time.Duration
	Detail     string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("refused for now (%s): %s", e.Reason, e.Detail)
}
