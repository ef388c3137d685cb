package dataflow

import "context"

// Outsider is an optional ability of a Source that needs things in the system outside
// which somebody has to make and, at the end, to remove: a replication slot, rights. The
// Source need not have splits assigned. The caller closes what Outside returns.
type Outsider interface {
	Outside(ctx context.Context) (Outside, error)
}

// Outside looks at such things, makes and removes them. One goroutine uses it.
type Outside interface {
	// Things are all that the source needs, in the order in which they are to be made.
	Things(ctx context.Context) ([]Thing, error)
	// Do runs a statement of a Thing.
	Do(ctx context.Context, statement string) error
	Close() error
}

// Retainer is an optional ability of a Source for which the system outside keeps what is
// not acknowledged, as a database its log for a replication slot.
type Retainer interface {
	// Retained may be called from any goroutine; ok is false while it is not known.
	Retained() (r Retained, ok bool)
}

// Retained is how much that is.
type Retained struct {
	Bytes int64
	// Alarm says in words that it is too much, and what would help; "" if it is not.
	Alarm string
}

// Thing is one of them.
type Thing struct {
	// Name as people know it: "publication shop".
	Name string
	// Missing or wrong; else it is there as it should be.
	Wrong bool
	// Detail says what is wrong and what to do, or what is worth knowing; it may be "".
	Detail string
	// Fix are the statements by which a thing that is wrong becomes right.
	Fix []string
	// Manual: Fix is for somebody with other rights, or needs more than statements.
	Manual bool
	// Drop are the statements by which a thing that is there is removed; nil for what
	// does not belong to the pipeline.
	Drop []string
}
