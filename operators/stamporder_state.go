package operators

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The waiting rows in an operator's KV, per key group (docs/state-format.md):
//
//	'h' 'b' number (8, big endian) = rows: a table of splits, then an Arrow IPC stream
//	'h' 'w'                        = the watermark (8) up to which rows were taken
//
// Rows are written at the first barrier at which they wait. What is written at
// one barrier is a set; it is removed when all of its rows are gone. Those of
// them that were taken before are known by the watermark: their stamp is below
// it. A new set takes over the rows of the sets before it that are not larger,
// so that there are few sets, and a row is written again only as often as its
// set has doubled.
//
// The table of splits names the numbers in the column _split, which are of one
// process only: uvarint count, then per split uvarint number, source and split,
// each with a uvarint of its length before it.
const stampPrefix = 'h'

var (
	stampBlobs  = []byte{stampPrefix, 'b'}
	stampBlobsE = []byte{stampPrefix, 'b' + 1}
	stampMark   = []byte{stampPrefix, 'w'}
)

// stampState is what stampOrder knows of its rows in the KV.
type stampState struct {
	released dataflow.Time // rows with a lower stamp are gone
	next     uint64        // number of the next blob
	blobs    [state.NumGroups]int
	marks    [state.NumGroups]dataflow.Time // as in the KV
	sets     []*stampSaved                  // oldest first, each larger than the next when that was written
}

// stampSaved is a set: what was written together.
type stampSaved struct {
	runs int // those of which rows are left
	keys []stampKey
}

type stampKey struct {
	group  int
	number uint64
}

func (k stampKey) bytes() []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(stampBlobs), k.number)
}

// save writes the runs that are not in the state yet, and the watermark.
func (o *stampOrder) save() error {
	fresh, rows := o.runsOf(nil)
	for sets := o.state.sets; len(fresh) > 0 && len(sets) > 0; sets = o.state.sets {
		last := sets[len(sets)-1]
		more, n := o.runsOf(last)
		if n > rows {
			break
		}
		fresh, rows = append(fresh, more...), rows+n
		if err := o.drop(last); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		slices.SortFunc(fresh, func(a, b *stampRun) int { return cmp.Compare(a.seq, b.seq) })
		if err := o.saveRuns(fresh); err != nil {
			return err
		}
	}
	for g, n := range o.state.blobs {
		// Behind a restart a barrier may come before the first watermark.
		if n == 0 || o.state.marks[g] >= o.state.released {
			continue
		}
		v := binary.BigEndian.AppendUint64(nil, uint64(o.state.released))
		if err := o.env.State.Set(g, stampMark, v); err != nil {
			return err
		}
		o.state.marks[g] = o.state.released
	}
	return nil
}

// runsOf returns the runs that were saved in set, and how many rows are left of
// them.
func (o *stampOrder) runsOf(set *stampSaved) (runs []*stampRun, rows int64) {
	for _, r := range o.runs {
		if r.saved == set {
			runs = append(runs, r)
			rows += int64(len(r.stamps) - r.next)
		}
	}
	return runs, rows
}

// saveRuns writes what is left of runs, one blob per key group.
func (o *stampOrder) saveRuns(runs []*stampRun) error {
	batches := make([]arrow.RecordBatch, len(runs))
	for i, r := range runs {
		batches[i] = r.batch.NewSlice(int64(r.next), r.batch.NumRows())
		defer batches[i].Release()
	}
	all, err := joinBatches(o.env, batches)
	if err != nil {
		return err
	}
	defer all.Release()
	rows, ends := byGroup(all.Column(o.cols.route).(*array.Uint64).Uint64Values())
	grouped, err := dataflow.TakeBatch(o.env.Alloc, all, rows)
	if err != nil {
		return err
	}
	defer grouped.Release()
	saved := &stampSaved{runs: len(runs)}
	head := o.splitTable(grouped)
	from := 0
	for g, to := range ends {
		if to == from {
			continue
		}
		key := stampKey{group: g, number: o.state.next}
		if err := o.saveBlob(key, head, grouped, from, to); err != nil {
			return err
		}
		saved.keys = append(saved.keys, key)
		from = to
	}
	o.state.next++
	o.state.sets = append(o.state.sets, saved)
	for _, r := range runs {
		r.saved = saved
	}
	return nil
}

// byGroup sorts rows by the key group of their hash, keeping their order within
// it; ends[g] is where group g ends.
func byGroup(hashes []uint64) (rows []int32, ends [state.NumGroups]int) {
	for _, h := range hashes {
		ends[state.GroupOf(h)]++
	}
	var next [state.NumGroups]int
	sum := 0
	for g, n := range ends {
		next[g] = sum
		sum += n
		ends[g] = sum
	}
	rows = make([]int32, len(hashes))
	for i, h := range hashes {
		g := state.GroupOf(h)
		rows[next[g]] = int32(i)
		next[g]++
	}
	return rows, ends
}

func (o *stampOrder) saveBlob(key stampKey, head []byte, b arrow.RecordBatch, from, to int) error {
	part := b.NewSlice(int64(from), int64(to))
	defer part.Release()
	var buf bytes.Buffer
	buf.Write(head)
	w := ipc.NewWriter(&buf, ipc.WithSchema(part.Schema()), ipc.WithAllocator(o.env.Alloc))
	if err := errors.Join(w.Write(part), w.Close()); err != nil {
		return err
	}
	o.state.blobs[key.group]++
	return o.env.State.Set(key.group, key.bytes(), buf.Bytes())
}

// splitTable writes the names of the splits that b's rows came from.
func (o *stampOrder) splitTable(b arrow.RecordBatch) []byte {
	var ids []int32
	if o.cols.split >= 0 {
		ids = slices.Clone(b.Column(o.cols.split).(*array.Int32).Int32Values())
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	head := binary.AppendUvarint(nil, uint64(len(ids)))
	for _, id := range ids {
		source, split := o.env.Splits.Name(id)
		head = binary.AppendUvarint(head, uint64(id))
		for _, s := range []string{source, string(split)} {
			head = binary.AppendUvarint(head, uint64(len(s)))
			head = append(head, s...)
		}
	}
	return head
}

// forget counts r out of its set, which goes with its last run.
func (o *stampOrder) forget(r *stampRun) error {
	if r.saved == nil {
		return nil
	}
	if r.saved.runs--; r.saved.runs > 0 {
		return nil
	}
	return o.drop(r.saved)
}

// drop removes a set from the state.
func (o *stampOrder) drop(set *stampSaved) error {
	o.state.sets = slices.DeleteFunc(o.state.sets, func(s *stampSaved) bool { return s == set })
	for _, k := range set.keys {
		if err := o.env.State.Delete(k.group, k.bytes()); err != nil {
			return fmt.Errorf("remove rows that waited: %w", err)
		}
		if o.state.blobs[k.group]--; o.state.blobs[k.group] > 0 {
			continue
		}
		if err := o.env.State.Delete(k.group, stampMark); err != nil {
			return fmt.Errorf("remove rows that waited: %w", err)
		}
		o.state.marks[k.group] = dataflow.MinTime
	}
	return nil
}

// restore makes one run of all rows that wait in the state.
func (o *stampOrder) restore(schema *arrow.Schema) error {
	o.state.released = dataflow.MinTime
	found := stampFound{set: &stampSaved{runs: 1}}
	defer found.release()
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		if err := o.restoreGroup(schema, g, &found); err != nil {
			return err
		}
	}
	if len(found.batches) == 0 {
		return nil
	}
	all, err := joinBatches(o.env, found.batches)
	if err != nil {
		return err
	}
	defer all.Release()
	left, err := dataflow.TakeBatch(o.env.Alloc, all, found.left)
	if err != nil {
		return err
	}
	defer left.Release()
	r, err := o.add(left)
	if err != nil {
		return err
	}
	if r == nil { // All of them were taken before the last barrier.
		return o.drop(found.set)
	}
	o.env.Fates.Held.Add(left.NumRows())
	r.saved, o.state.sets = found.set, []*stampSaved{found.set}
	return nil
}

// stampFound is what restore has read.
type stampFound struct {
	set     *stampSaved
	batches []arrow.RecordBatch
	rows    int
	left    []int32 // the rows of all batches that were not yet taken
}

func (f *stampFound) release() {
	for _, b := range f.batches {
		b.Release()
	}
}

func (o *stampOrder) restoreGroup(schema *arrow.Schema, g int, found *stampFound) error {
	mark, err := o.restoreMark(g)
	if err != nil {
		return err
	}
	o.state.marks[g] = mark
	return o.env.State.Scan(g, stampBlobs, stampBlobsE, func(k, v []byte) error {
		key := stampKey{group: g, number: binary.BigEndian.Uint64(k[len(stampBlobs):])}
		b, err := o.restoreBlob(schema, v)
		if err != nil {
			return fmt.Errorf("rows %d of key group %d: %w", key.number, g, err)
		}
		for _, s := range b.Column(o.cols.stamp).(*array.Int64).Int64Values() {
			if dataflow.Time(s) >= mark {
				found.left = append(found.left, int32(found.rows))
			}
			found.rows++
		}
		found.batches = append(found.batches, b)
		found.set.keys = append(found.set.keys, key)
		o.state.blobs[g]++
		o.state.next = max(o.state.next, key.number+1)
		return nil
	})
}

func (o *stampOrder) restoreMark(group int) (dataflow.Time, error) {
	v, err := o.env.State.Get(group, stampMark)
	if errors.Is(err, state.ErrNotFound) {
		return dataflow.MinTime, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("watermark of %d bytes, expected 8", len(v))
	}
	return dataflow.Time(binary.BigEndian.Uint64(v)), nil
}

// restoreBlob reads the rows of one blob, with this process's numbers for
// splits. The caller owns the batch.
func (o *stampOrder) restoreBlob(schema *arrow.Schema, v []byte) (arrow.RecordBatch, error) {
	ids, rest, err := o.readSplitTable(v)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewReader(bytes.NewReader(rest), ipc.WithAllocator(o.env.Alloc))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if !sameFields(r.Schema(), schema) {
		return nil, fmt.Errorf("the rows have the columns %v, the step now has %v", r.Schema().Fields(), schema.Fields())
	}
	if !r.Next() {
		return nil, fmt.Errorf("no rows: %w", cmp.Or(r.Err(), errors.New("the stream is empty")))
	}
	b := r.RecordBatch()
	cols := slices.Clone(b.Columns())
	if o.cols.split >= 0 {
		cols[o.cols.split] = renumber(o.env.Alloc, b.Column(o.cols.split).(*array.Int32), ids)
		defer cols[o.cols.split].Release()
	}
	return array.NewRecordBatch(schema, cols, b.NumRows()), nil
}

func sameFields(a, b *arrow.Schema) bool {
	return slices.EqualFunc(a.Fields(), b.Fields(), func(x, y arrow.Field) bool {
		return x.Name == y.Name && arrow.TypeEqual(x.Type, y.Type)
	})
}

func renumber(alloc memory.Allocator, col *array.Int32, ids map[int32]int32) arrow.Array {
	b := array.NewInt32Builder(alloc)
	defer b.Release()
	for i := range col.Len() {
		if col.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(ids[col.Value(i)])
	}
	return b.NewArray()
}

// readSplitTable returns this process's number for each number in the table,
// and what follows the table.
func (o *stampOrder) readSplitTable(v []byte) (map[int32]int32, []byte, error) {
	short := errors.New("the table of splits is cut off")
	number := func() (uint64, bool) {
		n, k := binary.Uvarint(v)
		if k <= 0 {
			return 0, false
		}
		v = v[k:]
		return n, true
	}
	text := func() (string, bool) {
		n, ok := number()
		if !ok || n > uint64(len(v)) {
			return "", false
		}
		s := string(v[:n])
		v = v[n:]
		return s, true
	}
	count, ok := number()
	if !ok {
		return nil, nil, short
	}
	ids := map[int32]int32{}
	for range count {
		id, ok1 := number()
		source, ok2 := text()
		split, ok3 := text()
		if !ok1 || !ok2 || !ok3 {
			return nil, nil, short
		}
		ids[int32(id)] = o.env.Splits.ID(source, dataflow.Split(split))
	}
	return ids, v, nil
}
