package operators

import (
	"encoding/binary"
	"errors"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// retractRows computes the aggregates that cannot be taken back from the rows of
// groups. Where the order of rows matters, it is that of the input's key, as bytes.
type retractRows struct {
	set    *aggregateSet
	layout *accLayout
	feed   *aggregateFeed
	rows   []uint64 // one per group of the chunk, from the second on
	heaps  []accHeap

	args   []array.Builder // of the rows that were read and not counted yet
	groups []uint32
	places *array.Int64Builder

	batch  *distinctBatch // nil without distinct
	values *distinctTable
	sums   *distinctSums
	blob   []byte
	key    []byte
}

// retractPlaces stands for the system columns by which rows are ordered: the place
// of a row in its group, as the event time.
var retractPlaces = arrow.NewSchema([]arrow.Field{{Name: dataflow.SysTime, Type: dataflow.TypeInt64}}, nil)

func newRetractRows(env *dataflow.Env, s *groupRetractShape) *retractRows {
	layout := newAccLayout(s.kept.funcs)
	r := &retractRows{
		set: s.kept, layout: layout, feed: s.kept.newFeed(env), heaps: layout.newHeaps(), places: array.NewInt64Builder(env.Alloc),
		batch: s.kept.newDistinctBatch(), values: s.kept.newDistinctTable(), sums: s.kept.newDistinctSums(layout),
	}
	for _, e := range s.set.exprs {
		r.args = append(r.args, array.NewBuilder(env.Alloc, e.Type()))
	}
	for _, o := range r.feed.orders {
		if o != nil {
			o.timeCol = 0 // of retractPlaces
		}
	}
	return r
}

func (r *retractRows) release() {
	for _, b := range r.args {
		b.Release()
	}
	r.places.Release()
	if r.sums != nil {
		r.sums.release()
	}
}

// row is the accumulators of the i-th group of the chunk.
func (r *retractRows) row(i int) []uint64 {
	return r.rows[(i+1)*r.layout.stride : (i+2)*r.layout.stride]
}

// compute fills the accumulators of the groups of o's chunk.
func (r *retractRows) compute(o *groupRetract) error {
	size := (len(o.chunk) + 1) * r.layout.stride
	r.rows = slices.Grow(r.rows[:0], size)[:size]
	clear(r.rows)
	for h := range r.heaps {
		r.heaps[h].reset()
	}
	for i, e := range o.chunk {
		if o.rowCount(o.acc(e)) == 0 {
			continue
		}
		place, lo := int64(0), slices.Clone(o.rowKey(o.table.Key(e), nil))
		err := o.env.State.Scan(o.group(o.table.Hash(e)), lo, afterPrefix(lo), func(_, row []byte) error {
			r.groups = append(r.groups, uint32(i+1))
			r.places.Append(place)
			place++
			if err := decodeRow(row, r.args); err != nil {
				return err
			}
			if len(r.groups) < retractChunk {
				return nil
			}
			return r.settle()
		})
		if err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	return r.addDistinct(len(o.chunk))
}

// afterPrefix is the first key behind all that begin with prefix, which has a byte
// below 0xff.
func afterPrefix(prefix []byte) []byte {
	hi := slices.Clone(prefix)
	for hi[len(hi)-1] == 0xff {
		hi = hi[:len(hi)-1]
	}
	hi[len(hi)-1]++
	return hi
}

// settle counts the rows that were read.
func (r *retractRows) settle() error {
	if len(r.groups) == 0 {
		return nil
	}
	args := make([]arrow.Array, len(r.args))
	for i, b := range r.args {
		args[i] = b.NewArray()
		defer args[i].Release()
	}
	places := r.places.NewArray()
	defer places.Release()
	b := array.NewRecordBatch(retractPlaces, []arrow.Array{places}, int64(len(r.groups)))
	defer b.Release()
	r.feed.bindArgs(args, b)
	defer r.feed.unbind()
	r.feed.update(r.layout, r.rows, r.heaps, r.groups)
	err := r.collect()
	r.groups = r.groups[:0]
	return err
}

// collect takes the different values of the rows that were read.
func (r *retractRows) collect() error {
	if r.batch == nil {
		return nil
	}
	// Groups come one after the other.
	first, last := r.groups[0], r.groups[len(r.groups)-1]
	for i := range r.groups {
		r.groups[i] -= first - 1
	}
	r.batch.collect(r.feed, r.groups, int(last-first+1))
	for g := first; g <= last; g++ {
		r.blob = r.batch.append(r.blob[:0], g-first+1)
		hash := r.groupID(g)
		var failed error
		err := r.values.add(hash, r.key, r.blob, func(arg int, value []byte, mask uint64) {
			if err := r.sums.add(hash, r.key, arg, value, mask); err != nil {
				failed = err
			}
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// groupID makes key the name of a group of the chunk and returns its hash.
func (r *retractRows) groupID(g uint32) uint64 {
	r.key = binary.BigEndian.AppendUint32(r.key[:0], g)
	return keyHash(r.key)
}

// addDistinct brings the different values of n groups into their accumulators.
func (r *retractRows) addDistinct(n int) error {
	if r.batch == nil {
		return nil
	}
	if err := r.sums.settle(); err != nil {
		return err
	}
	for i := range n {
		hash := r.groupID(uint32(i + 1))
		r.layout.mergeRow(r.row(i), r.heaps, r.sums.row(hash, r.key), r.sums.heaps)
	}
	r.sums.reset()
	r.values.reset()
	return nil
}
