package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"frazil/dataflow/failpoint"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Key is the hash of what names a request: its bytes are spread evenly, and nobody
// can make two requests that share one.
type Key [16]byte

// KeyEntry is what is remembered under a key.
type KeyEntry struct {
	Key
	// Digest and First are the owner's: what the request held, and its first record.
	Digest, First uint64
	// Arrived is when it was Put, in microseconds of the clock of Keys: what Keep counts
	// from.
	Arrived  int64
	Accepted uint32
	// More is what else the owner keeps; nil for most.
	More []byte
}

// KeysOptions bound what is remembered.
type KeysOptions struct {
	// FS is the file system; default: the machine's.
	FS vfs.FS
	// Keep is how long an entry is found after it was Put, of the time in which Keys is
	// open: neither a clock that is set nor a process that is down makes an entry older.
	Keep time.Duration
	// Max is how many entries are kept on the disk; over it the oldest are forgotten
	// before their time, counted, in runs of many. Default: no bound.
	Max int
	// Now is the clock; default: the wall clock.
	Now func() time.Time
	// Log takes messages; default: none.
	Log *slog.Logger
}

// Keys remembers entries for a while, across restarts and beyond the frames that
// they came with. New ones are in memory, and durable by the frames of the log;
// before those are removed, Save writes them into a run: a file beside the
// segments, sorted by key, that is never changed. In memory stay, per entry of a
// run, 16 bits of a filter, so that a question for a key that is not there seldom
// reads the disk, and 8 bytes per block of 85 entries. Eight small runs
// that follow each other are merged. Safe for concurrent use.
type Keys struct {
	dir string
	o   KeysOptions
	// opened is when, and since what the clock of Keys showed then: the newest time that
	// stands in a run, since when nobody has counted.
	opened time.Time
	since  int64

	// io is held by who writes runs.
	io sync.Mutex

	mu struct {
		sync.RWMutex
		// young was Put and is not in a run; frozen is being written into one.
		young, frozen map[Key]KeyEntry
		// bytes are what young holds beside the entries, upTo is the sequence number
		// behind the last of them.
		bytes int
		upTo  uint64
		// runs, oldest first, and saved, the sequence number behind the last of them.
		runs      []*keyRun
		saved     uint64
		forgotten int64
		reserved  bool
	}
	// leftover are files whose entries stand in others.
	leftover []string
}

const (
	// keysYoung is how many entries, and keysYoungBytes how many bytes beside them,
	// wait for a run at most: they are in memory, and the reserve must hold them.
	keysYoung      = 16 << 10
	keysYoungBytes = 512 << 10
	// keysReserve is room on the disk for a run, so that segments can be removed
	// when it is full.
	keysReserve     = 2 << 20
	keysReserveName = "RESERVE"
)

// OpenKeys reads the runs in dir and changes nothing. It fails with ErrCorrupt if
// one is damaged.
func OpenKeys(dir string, o KeysOptions) (*Keys, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{dir: dir, o: o}
	k.mu.young, k.mu.saved = map[Key]KeyEntry{}, 1
	names, err := listKeyRuns(o.FS, dir)
	if err != nil {
		return nil, err
	}
	for i, n := range names {
		if i > 0 && n.upTo <= k.mu.saved {
			k.leftover = append(k.leftover, n.path(o.FS, dir))
			continue
		}
		// Runs may overlap: one that got its name although writing it failed.
		if i > 0 && n.from > k.mu.saved {
			return nil, errors.Join(fmt.Errorf("%w: the idempotency keys of the records %d to %d are missing in %s", ErrCorrupt, k.mu.saved, n.from-1, dir), k.Close())
		}
		r, err := openKeyRun(o.FS, dir, n)
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
		k.mu.runs, k.mu.saved = append(k.mu.runs, r), n.upTo
	}
	k.opened = o.Now()
	if k.since = k.newest(); k.since == 0 {
		k.since = k.opened.UnixMicro()
	}
	return k, nil
}

// newest is the newest time that stands in a run, 0 without one.
func (k *Keys) newest() int64 {
	var out int64
	for _, r := range k.mu.runs {
		out = max(out, r.newest)
	}
	return out
}

// now is the clock of Keys.
func (k *Keys) now() int64 { return k.since + k.o.Now().Sub(k.opened).Microseconds() }

// oldest is what has just not expired.
func (k *Keys) oldest() int64 { return k.now() - k.o.Keep.Microseconds() }

// Saved is the sequence number below which all entries are in runs: those of
// records from there on must be Put again after a restart.
func (k *Keys) Saved() uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.mu.saved
}

// Put remembers entries of one append, in the order of their records; next is the
// sequence number behind it, and sets when they arrived. due says that it is time for a
// Save.
func (k *Keys) Put(next uint64, entries ...KeyEntry) (due bool) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range entries {
		e.Arrived = now
		k.mu.bytes += len(e.More) - len(k.mu.young[e.Key].More)
		k.mu.young[e.Key] = e
	}
	k.mu.upTo = max(k.mu.upTo, next)
	return len(k.mu.young) >= keysYoung || k.mu.bytes >= keysYoungBytes
}

// Forget takes back what was put under a key.
func (k *Keys) Forget(key Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.bytes -= len(k.mu.young[key].More)
	k.mu.young[key] = KeyEntry{Key: key} // It hides older ones, and has expired.
}

// Find returns what was put last under a key within the time that is kept.
func (k *Keys) Find(key Key) (e KeyEntry, ok bool, err error) {
	since := k.oldest()
	k.mu.RLock()
	defer k.mu.RUnlock()
	if e, ok = k.mu.young[key]; !ok {
		e, ok = k.mu.frozen[key]
	}
	for i := len(k.mu.runs) - 1; i >= 0 && !ok; i-- {
		if e, ok, err = k.mu.runs[i].find(key); err != nil {
			return e, false, err
		}
	}
	return e, ok && e.Arrived >= since, nil
}

// Save makes everything that was Put durable in runs. On a full disk it uses the
// room that was set aside.
func (k *Keys) Save() error {
	k.io.Lock()
	defer k.io.Unlock()
	k.mu.Lock()
	young, from, upTo := k.mu.young, k.mu.saved, k.mu.upTo
	if len(young) == 0 || upTo <= from {
		k.mu.Unlock()
		return nil
	}
	k.mu.frozen, k.mu.young, k.mu.bytes = young, map[Key]KeyEntry{}, 0
	k.mu.Unlock()
	entries := make([]KeyEntry, 0, len(young))
	for _, e := range young {
		entries = append(entries, e)
	}
	r, err := k.write(from, upTo, entries)
	if isFull(err) && k.giveUpReserve() {
		r, err = k.write(from, upTo, entries)
	}
	k.mu.Lock()
	if err != nil {
		for key, e := range k.mu.frozen {
			if _, newer := k.mu.young[key]; !newer {
				k.mu.young[key] = e
				k.mu.bytes += len(e.More)
			}
		}
	} else {
		k.mu.runs, k.mu.saved = append(k.mu.runs, r), upTo
	}
	k.mu.frozen = nil
	k.mu.Unlock()
	if err != nil {
		return fmt.Errorf("save idempotency keys: %w", err)
	}
	// What follows only saves room and time: the next Save tries again.
	if err := errors.Join(k.expire(), k.merge(), k.reserve()); err != nil && !isFull(err) {
		return fmt.Errorf("tidy up idempotency keys: %w", err)
	}
	return nil
}

// write makes a run. A panic is an error here: what was to be written is still known
// then, and is written by the next Save.
func (k *Keys) write(from, upTo uint64, entries []KeyEntry) (r *keyRun, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("write %d idempotency keys: panic: %v\n%s", len(entries), p, debug.Stack())
		}
	}()
	slices.SortFunc(entries, func(a, b KeyEntry) int { return compareKeys(a.Key, b.Key) })
	n := keyRunName{from, upTo}
	f, err := writeNamed(k.o.FS, k.dir, n.name(), encodeKeyRun(n, entries))
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := failpoint.Hit(failpoint.WALKeys); err != nil {
		return nil, err
	}
	return openKeyRun(k.o.FS, k.dir, n)
}

// expire removes runs whose newest entry is too old, and, over Max, the oldest.
func (k *Keys) expire() error {
	for _, path := range k.leftover {
		if err := k.o.FS.Remove(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	k.leftover = nil
	since := k.oldest()
	for {
		k.mu.Lock()
		total := 0
		for _, r := range k.mu.runs {
			total += r.count
		}
		// The last one stays: it says how far entries are saved.
		if len(k.mu.runs) < 2 || k.mu.runs[0].newest >= since && (k.o.Max == 0 || total <= k.o.Max) {
			k.mu.Unlock()
			return nil
		}
		r := k.mu.runs[0]
		k.mu.runs = k.mu.runs[1:]
		early := r.newest >= since
		if early {
			k.mu.forgotten += int64(r.count)
		}
		k.mu.Unlock()
		if early {
			k.o.Log.Warn("idempotency keys are forgotten before their time: there are too many", "dir", k.dir, "forgotten", r.count, "max", k.o.Max, "newest", time.UnixMicro(r.newest).UTC())
		}
		if err := r.remove(k.o.FS); err != nil {
			return err
		}
	}
}

// merge makes one run of the last eight, if all of them are small.
func (k *Keys) merge() error {
	k.mu.RLock()
	n := len(k.mu.runs)
	old := slices.Clone(k.mu.runs[max(0, n-keyRunFan):])
	k.mu.RUnlock()
	if len(old) < keyRunFan || slices.ContainsFunc(old, func(r *keyRun) bool { return r.count >= keyRunWhole }) {
		return nil
	}
	r, err := k.mergeRuns(old)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.mu.runs = append(k.mu.runs[:n-keyRunFan:n-keyRunFan], r)
	k.mu.Unlock()
	for _, o := range old {
		if err := o.remove(k.o.FS); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keys) mergeRuns(old []*keyRun) (*keyRun, error) {
	since := k.oldest()
	newest := map[Key]int{}
	var all []KeyEntry
	for _, r := range old {
		entries, err := readKeyRun(k.o.FS, r.path, r.name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Arrived < since {
				continue
			}
			if i, ok := newest[e.Key]; ok {
				all[i] = e
				continue
			}
			newest[e.Key] = len(all)
			all = append(all, e)
		}
	}
	return k.write(old[0].name.from, old[len(old)-1].name.upTo, all)
}

// reserve sets room aside, once.
func (k *Keys) reserve() error {
	k.mu.Lock()
	done := k.mu.reserved
	k.mu.reserved = true
	k.mu.Unlock()
	if done {
		return nil
	}
	f, err := k.o.FS.Create(k.o.FS.PathJoin(k.dir, keysReserveName), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, keysReserve), f.Close())
	}
	if err != nil {
		k.giveUpReserve()
	}
	return err
}

// Reserve sets room on the disk aside for Save. Without room for it, it is tried
// again later.
func (k *Keys) Reserve() error {
	k.io.Lock()
	defer k.io.Unlock()
	if err := k.reserve(); err != nil && !isFull(err) {
		return fmt.Errorf("set room for idempotency keys aside: %w", err)
	}
	return nil
}

func (k *Keys) giveUpReserve() bool {
	k.mu.Lock()
	k.mu.reserved = false
	k.mu.Unlock()
	return k.o.FS.Remove(k.o.FS.PathJoin(k.dir, keysReserveName)) == nil
}

// Count is how many entries are remembered, and how many were forgotten before
// their time.
func (k *Keys) Count() (entries, forgotten int64) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	entries = int64(len(k.mu.young) + len(k.mu.frozen))
	for _, r := range k.mu.runs {
		entries += int64(r.count)
	}
	return entries, k.mu.forgotten
}

// Close releases the files. What was Put and not saved is durable by the frames of
// the log.
func (k *Keys) Close() error {
	k.io.Lock()
	defer k.io.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, r := range k.mu.runs {
		errs = append(errs, r.f.Close())
	}
	k.mu.runs = nil
	return errors.Join(errs...)
}
