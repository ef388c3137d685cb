package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Runs keeps rows that have no more room in memory. A user adds rows that it
// drops from its own tables, and later asks for single ones by their key.
//
// The rows of one Add and one key group are a run: sorted by key, in blocks of
// some 8 KiB in the KV, and never changed. In memory stay, per row, 16 bits of a
// filter, which answers nearly every question for a key that is not there, and 8
// bytes per block, so that a question for one that is there reads one block per
// run. Runs of one size are merged when there are eight of them: a key group has
// few runs, and a row is written again once for every eightfold of the rows.
//
// A row begins with its key, two 64-bit numbers that are spread evenly (a hash),
// and a time, as an unsigned number in the order of times; what follows is the
// user's. Rows of one key may be many, also in one run. A run goes when its newest
// row has expired.
//
// Like its KV, Runs has one user.
type Runs struct {
	kv     KV
	opts   RunsOptions
	groups [NumGroups]runGroup
	bytes  int64
	rows   int
	keep   uint64 // rows with a lower time have expired
	key    []byte
	block  []byte
}

// RunsOptions are part of the format: runs are opened with those they were
// written with.
type RunsOptions struct {
	// Prefix is the first byte of the runs' keys within the operator's KV.
	Prefix byte
	// RowWidth is the length of every row in bytes, at least 24.
	RowWidth int
}

const (
	// RunRowHead is what a row begins with: two halves of the key and the time,
	// big endian.
	RunRowHead = 24

	// runBlock is above what a KV packs together in memory: a block that is dropped
	// before it was written leaves nothing behind.
	runBlock  = 8 << 10
	runKeyLen = 1 + 4 + 1 + 8
	// runFan is how many runs of a tier become one of the next.
	runFan = 8
	// maxTier keeps the number of a tier in a byte and merges bounded.
	maxTier = 8
)

type runGroup struct {
	runs []*run // in the order of their numbers
	next uint32
}

// run is what memory holds of a run.
type run struct {
	number   uint32
	tier     uint8
	rows     int
	min, max uint64 // times
	// firsts are the first halves of the first keys of its blocks.
	firsts []uint64
	filter *Filter
}

func (r *run) bytes() int64 { return r.filter.Bytes() + 8*int64(cap(r.firsts)) + 96 }

// OpenRuns reads the runs of groups that stand in kv, once, to make their filters.
func OpenRuns(kv KV, groups Groups, o RunsOptions) (*Runs, error) {
	if o.RowWidth < RunRowHead {
		return nil, errors.New("runs: a row has at least 24 bytes")
	}
	r := &Runs{kv: kv, opts: o}
	for g := groups.Lo; g < groups.Hi; g++ {
		if err := r.loadGroup(g); err != nil {
			return nil, fmt.Errorf("load runs of key group %d: %w", g, err)
		}
	}
	return r, nil
}

// loadGroup reads the blocks of a group, which come run by run.
func (r *Runs) loadGroup(g int) error {
	var at *run
	var hashes []uint64
	done := func() {
		if at != nil {
			at.filter = NewFilter(len(hashes))
			for _, h := range hashes {
				at.filter.Add(h)
			}
			r.keepRun(g, at)
		}
		hashes = hashes[:0]
	}
	err := r.kv.Scan(g, []byte{r.opts.Prefix}, prefixEnd(r.opts.Prefix), func(k, block []byte) error {
		if len(k) != runKeyLen || len(block) == 0 || len(block)%r.opts.RowWidth != 0 {
			return fmt.Errorf("run key %x with a block of %d bytes", k, len(block))
		}
		number, tier := binary.BigEndian.Uint32(k[1:]), k[5]
		if at == nil || at.number != number {
			done()
			at = &run{number: number, tier: tier, min: ^uint64(0)}
		}
		at.firsts = append(at.firsts, binary.BigEndian.Uint64(k[6:]))
		for ; len(block) > 0; block = block[r.opts.RowWidth:] {
			at.add(block)
			hashes = append(hashes, binary.BigEndian.Uint64(block[8:]))
		}
		return nil
	})
	done()
	return err
}

// add counts a row.
func (r *run) add(row []byte) {
	t := binary.BigEndian.Uint64(row[16:])
	r.min, r.max = min(r.min, t), max(r.max, t)
	r.rows++
}

func (r *Runs) keepRun(g int, x *run) {
	gr := &r.groups[g]
	gr.runs = append(gr.runs, x)
	gr.next = max(gr.next, x.number+1)
	r.bytes += x.bytes()
	r.rows += x.rows
}

// Bytes is the memory that filters and indexes take.
func (r *Runs) Bytes() int64 { return r.bytes }

// Len is the number of rows, expired ones included that are still there.
func (r *Runs) Len() int { return r.rows }

// Group is the number of runs of one group.
func (r *Runs) Group(g int) int { return len(r.groups[g].runs) }

// Add makes a run of rows, which lie one behind the other in any order. All are
// of the group.
func (r *Runs) Add(g int, rows []byte) error {
	if len(rows) == 0 {
		return nil
	}
	return r.write(g, 0, sortRows(rows, r.opts.RowWidth))
}

// sortRows returns the rows in the order of their bytes. Nearly always the first
// half of the key decides, so that only numbers are moved about.
func sortRows(rows []byte, width int) [][]byte {
	type place struct {
		hi uint64
		at int
	}
	places := make([]place, 0, len(rows)/width)
	for at := 0; at < len(rows); at += width {
		places = append(places, place{binary.BigEndian.Uint64(rows[at:]), at})
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.hi != b.hi {
			return cmp.Compare(a.hi, b.hi)
		}
		return bytes.Compare(rows[a.at:a.at+width], rows[b.at:b.at+width])
	})
	out := make([][]byte, len(places))
	for i, p := range places {
		out[i] = rows[p.at : p.at+width : p.at+width]
	}
	return out
}

// write makes a run of sorted rows, or of them and those of the others of the
// tier, if it is full.
func (r *Runs) write(g int, tier uint8, rows [][]byte) error {
	gr := &r.groups[g]
	for ; tier < maxTier; tier++ {
		var same []*run
		for _, x := range gr.runs {
			if x.tier == tier {
				same = append(same, x)
			}
		}
		if len(same) < runFan-1 {
			break
		}
		for _, x := range same {
			more, err := r.read(g, x)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
			if err := r.drop(g, x); err != nil {
				return err
			}
		}
		rows = slices.DeleteFunc(rows, func(row []byte) bool { return binary.BigEndian.Uint64(row[16:]) < r.keep })
		if len(rows) == 0 {
			return nil
		}
		slices.SortFunc(rows, bytes.Compare)
	}
	return r.writeRun(g, tier, rows)
}

// read returns copies of the rows of a run, in order.
func (r *Runs) read(g int, x *run) ([][]byte, error) {
	all := make([]byte, 0, x.rows*r.opts.RowWidth)
	err := r.kv.Scan(g, r.runKey(x.number, x.tier, 0), r.runEnd(x), func(_, block []byte) error {
		all = append(all, block...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read run %d of key group %d: %w", x.number, g, err)
	}
	if len(all) != x.rows*r.opts.RowWidth {
		return nil, fmt.Errorf("run %d of key group %d has %d bytes, expected %d rows of %d", x.number, g, len(all), x.rows, r.opts.RowWidth)
	}
	out := make([][]byte, 0, x.rows)
	for ; len(all) > 0; all = all[r.opts.RowWidth:] {
		out = append(out, all[:r.opts.RowWidth:r.opts.RowWidth])
	}
	return out, nil
}

func (r *Runs) writeRun(g int, tier uint8, rows [][]byte) error {
	x := &run{number: r.groups[g].next, tier: tier, min: ^uint64(0), filter: NewFilter(len(rows))}
	x.firsts = make([]uint64, 0, len(rows)*r.opts.RowWidth/runBlock+1)
	for len(rows) > 0 {
		r.block = r.block[:0]
		first := binary.BigEndian.Uint64(rows[0])
		n := 0
		// Rows whose keys begin alike stand in one block.
		for ; n < len(rows) && (len(r.block)+r.opts.RowWidth <= runBlock || bytes.Equal(rows[n][:8], rows[n-1][:8])); n++ {
			r.block = append(r.block, rows[n]...)
			x.add(rows[n])
			x.filter.Add(binary.BigEndian.Uint64(rows[n][8:]))
		}
		rows = rows[n:]
		if err := r.kv.Set(g, r.runKey(x.number, tier, first), r.block); err != nil {
			return fmt.Errorf("write run %d of key group %d: %w", x.number, g, err)
		}
		x.firsts = append(x.firsts, first)
	}
	r.keepRun(g, x)
	return nil
}

// drop forgets a run.
func (r *Runs) drop(g int, x *run) error {
	if err := r.kv.DeleteRange(g, r.runKey(x.number, x.tier, 0), r.runEnd(x)); err != nil {
		return fmt.Errorf("drop run %d of key group %d: %w", x.number, g, err)
	}
	r.bytes -= x.bytes()
	r.rows -= x.rows
	r.groups[g].runs = slices.DeleteFunc(r.groups[g].runs, func(o *run) bool { return o == x })
	return nil
}

// Find looks for a row of the key with from <= time <= to. It returns the first
// one that it finds, as a copy, nil without one.
func (r *Runs) Find(g int, hi, lo, from, to uint64) ([]byte, error) {
	runs := r.groups[g].runs
	for i := len(runs) - 1; i >= 0; i-- {
		x := runs[i]
		if to < x.min || from > x.max || !x.filter.Has(lo) {
			continue
		}
		row, err := r.findIn(g, x, hi, lo, from, to)
		if row != nil || err != nil {
			return row, err
		}
	}
	return nil, nil
}

// MayHave says whether Find may find a row; it reads no storage.
func (r *Runs) MayHave(g int, lo uint64) bool {
	for _, x := range r.groups[g].runs {
		if x.filter.Has(lo) {
			return true
		}
	}
	return false
}

// Warm loads what a Find of the key will ask first.
func (r *Runs) Warm(g int, lo uint64) {
	for _, x := range r.groups[g].runs {
		x.filter.Warm(lo)
	}
}

func (r *Runs) findIn(g int, x *run, hi, lo, from, to uint64) ([]byte, error) {
	i := sort.Search(len(x.firsts), func(i int) bool { return x.firsts[i] > hi }) - 1
	if i < 0 {
		return nil, nil
	}
	block, err := r.kv.Get(g, r.runKey(x.number, x.tier, x.firsts[i]))
	if err != nil {
		return nil, fmt.Errorf("read block %d of run %d of key group %d: %w", i, x.number, g, err)
	}
	w := r.opts.RowWidth
	n := len(block) / w
	at := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint64(block[i*w:]) >= hi })
	for ; at < n; at++ {
		row := block[at*w : (at+1)*w]
		if binary.BigEndian.Uint64(row) != hi {
			break
		}
		if t := binary.BigEndian.Uint64(row[16:]); binary.BigEndian.Uint64(row[8:]) == lo && t >= from && t <= to {
			return row, nil
		}
	}
	return nil, nil
}

// Expire says that rows with a lower time do not count any more, and drops the
// runs that have no others.
func (r *Runs) Expire(keep uint64) error {
	r.keep = max(r.keep, keep)
	for g := range r.groups {
		for i := 0; i < len(r.groups[g].runs); {
			if x := r.groups[g].runs[i]; x.max < r.keep {
				if err := r.drop(g, x); err != nil {
					return err
				}
				continue
			}
			i++
		}
	}
	return nil
}

// runKey: prefix, number, tier, first half of the first key.
func (r *Runs) runKey(number uint32, tier uint8, first uint64) []byte {
	r.key = binary.BigEndian.AppendUint32(append(r.key[:0], r.opts.Prefix), number)
	r.key = binary.BigEndian.AppendUint64(append(r.key, tier), first)
	return r.key
}

func (r *Runs) runEnd(x *run) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{r.opts.Prefix}, x.number), x.tier+1)
}
