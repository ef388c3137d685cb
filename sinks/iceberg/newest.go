package iceberg

import (
	"fmt"
	"sync"

	"frazil/dataflow"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// newest remembers how far a table has come, so that an answer of some time ago, as
// caches and replicas of catalogs give, is known for what it is: compared with the
// positions of a commit, it looks as if another process had moved the table. Its
// sequence number grows with every snapshot, also with one that rolls back. The zero
// value is ready; goroutines may share it.
type newest struct {
	mu    sync.Mutex
	table uuid.UUID
	seq   int64
}

// check remembers meta, or says that it is older than what was seen before.
func (n *newest) check(target dataflow.Target, meta table.Metadata) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	seq := meta.LastSequenceNumber()
	if id := meta.TableUUID(); id != n.table {
		n.table, n.seq = id, seq
		return nil
	}
	if seq < n.seq {
		return fmt.Errorf("the catalog answers with an older state of table %s than before: sequence number %d, it was at %d; if no cache is to blame, the table was put back", target, seq, n.seq)
	}
	n.seq = seq
	return nil
}
