package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of a Store.
type Options struct {
	// Logger receives Pebble's messages; nil is slog's default.
	Logger *slog.Logger
	// CacheBytes is Pebble's block cache; 0 means 32 MiB. It fills as it is
	// used.
	CacheBytes int64
	// FS is the file system; nil is the machine's.
	FS FS
	// Fatal is called, from any goroutine, when the store cannot go on: it does not
	// know any more what is on the disk. It must not return. nil ends the process
	// with code 1: what is durable is read again by the next one.
	Fatal func(reason string)
	// TablesFrom is from how many bytes of changes on an epoch is written as finished
	// tables instead of by way of Pebble's log; 0 means 2 MiB.
	TablesFrom int64
}

// FS is a file system, File a file of one.
type (
	FS   = vfs.FS
	File = vfs.File
)

// OS is the machine's file system.
var OS FS = vfs.Default

const defaultCache = 32 << 20

// Store keeps the keyed state of a pipeline and the manifest of its last epoch
// in one Pebble store. Between Writes nothing is written to Pebble.
//
// One goroutine at a time may call Write, KV, Drop and Reset (they wait for each
// other); the KVs work beside a Write. Lock order: write, then mu, then a KV's
// mu.
type Store struct {
	db   *pebble.DB
	opts *pebble.Options // of db
	lock *pebble.Lock
	fs   vfs.FS
	dir  string
	log  *slog.Logger
	seed [16]byte
	// tablesFrom is from how many bytes on changes go as tables.
	tablesFrom int64

	write sync.Mutex // held by whoever changes Pebble
	// inUse counts calls that are inside Pebble, for Close.
	inUse sync.WaitGroup

	mu struct {
		sync.Mutex
		closed  bool
		closing error
		done    chan struct{} // closed when Close is through
		catalog map[string]uint32
		nextID  uint32
		kvs     []*TaskKV // those handed out and not stale
	}
}

var errClosed = errors.New("the state store is closed")

// Open opens the store in dir, creating both if they are not there. Only one
// Store may have dir open: a second one gets a *LockedError. A store of a newer
// format is refused.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCache
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Fatal == nil {
		o.Fatal = func(string) { os.Exit(1) }
	}
	if o.TablesFrom == 0 {
		o.TablesFrom = tablesFrom
	}
	if err := o.FS.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	lock, err := lockDir(o.FS, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, fs: o.FS, dir: dir, log: o.Logger, tablesFrom: o.TablesFrom}
	if err := s.open(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open state in %s: %w", dir, err), lock.Close())
	}
	return s, nil
}

func (s *Store) open(o Options) error {
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref() // Pebble holds its own reference.
	log, ending := pebbleLogger{s.log, o.Fatal}, &endFS{FS: s.fs}
	opts := pebbleOptions(ending, cache, log)
	opts.Lock = s.lock
	opts.EnsureDefaults()
	if err := removeTables(s.fs, s.dir); err != nil {
		return err
	}
	db, err := openPebble(s.dir, opts)
	if err != nil {
		if strings.Contains(err.Error(), "unknown format major version") {
			return fmt.Errorf("%w (%v)", errNewer, err)
		}
		return err
	}
	s.db, s.opts = db, opts
	s.mu.done = make(chan struct{})
	if err := s.load(); err != nil {
		return errors.Join(err, db.Close())
	}
	ending.log.Store(&log)
	return nil
}

// load checks the version and reads the catalog, or makes a new store.
func (s *Store) load() error {
	version, err := s.get(keyVersion)
	if errors.Is(err, ErrNotFound) {
		return s.create()
	}
	if err != nil {
		return err
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	seed, err := s.get(keySeed)
	if err != nil || len(seed) != len(s.seed) {
		return fmt.Errorf("read seed: %d bytes, %w", len(seed), err)
	}
	copy(s.seed[:], seed)
	next, err := s.get(keyNextID)
	if err != nil {
		return fmt.Errorf("read next step id: %w", err)
	}
	if s.mu.nextID, err = parseID(next); err != nil {
		return err
	}
	return s.loadCatalog()
}

func (s *Store) loadCatalog() (err error) {
	s.mu.catalog = map[string]uint32{}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCatalog}, UpperBound: []byte{spaceCatalog + 1}})
	if err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		id, err := parseID(it.Value())
		if err != nil {
			return fmt.Errorf("read catalog entry %q: %w", it.Key()[1:], err)
		}
		s.mu.catalog[string(it.Key()[1:])] = id
	}
	return it.Error()
}

// create writes version, seed and an empty catalog: all or nothing, so that a
// crash leaves a store that is made again.
func (s *Store) create() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	used := it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if used {
		return errors.New("the store has entries but no version: it is not a state store, or damaged")
	}
	rand.Read(s.seed[:]) // It never fails.
	s.mu.catalog, s.mu.nextID = map[string]uint32{}, 1
	b := s.db.NewBatch()
	defer b.Close()
	err = errors.Join(
		b.Set(keyVersion, []byte(strconv.Itoa(FormatVersion)), nil),
		b.Set(keySeed, s.seed[:], nil),
		b.Set(keyNextID, encodeID(s.mu.nextID), nil),
		s.commit(b),
	)
	if err != nil {
		return fmt.Errorf("create the store: %w", err)
	}
	return nil
}

// enter registers a call into Pebble; leave ends it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return errClosed
	}
	s.inUse.Add(1)
	return nil
}

func (s *Store) leave() { s.inUse.Done() }

// get returns a copy of the value of a full key, or ErrNotFound.
func (s *Store) get(key []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	v, c, err := s.db.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, ErrNotFound
		}
		return nil, fmt.Errorf("read state: %w", err)
	}
	out := append(make([]byte, 0, len(v)), v...)
	return out, c.Close()
}

// Manifest returns the manifest of the last Write, nil if there was none.
func (s *Store) Manifest() ([]byte, error) {
	b, err := s.get(keyManifest)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return b, err
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// FS is the file system that the store is on.
func (s *Store) FS() FS { return s.fs }

// Seed returns random bytes that are this store's for ever.
func (s *Store) Seed() [16]byte { return s.seed }

// KV returns the key space of step for the groups g, as of the last Write. The
// step gets its id in the catalog if it is new. A KV of the step with groups
// that overlap becomes stale, and what it had not written is lost: it belongs to
// a task that has ended.
func (s *Store) KV(step string, g Groups) (*TaskKV, error) {
	if g.Lo < 0 || g.Hi > NumGroups || g.Lo > g.Hi {
		return nil, fmt.Errorf("state of step %q: key groups %d to %d are no range", step, g.Lo, g.Hi)
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	id, err := s.idOf(step)
	if err != nil {
		return nil, fmt.Errorf("give step %q an id: %w", step, err)
	}
	kv := &TaskKV{store: s, step: step, id: id, groups: g, live: &layer{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaceLocked(func(old *TaskKV) bool { return old.id == id && old.groups.Lo < g.Hi && g.Lo < old.groups.Hi })
	s.mu.kvs = append(s.mu.kvs, kv)
	return kv, nil
}

// replaceLocked makes the KVs that match stale.
func (s *Store) replaceLocked(match func(*TaskKV) bool) {
	s.mu.kvs = slices.DeleteFunc(s.mu.kvs, func(kv *TaskKV) bool {
		if !match(kv) {
			return false
		}
		kv.stale.Store(true)
		return true
	})
}

// idOf looks the id of a step up, giving it one durably if it is new.
func (s *Store) idOf(step string) (uint32, error) {
	s.mu.Lock()
	id, ok := s.mu.catalog[step]
	next := s.mu.nextID
	s.mu.Unlock()
	if ok {
		return id, nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	err := errors.Join(
		b.Set(catalogKey(step), encodeID(next), nil),
		b.Set(keyNextID, encodeID(next+1), nil),
		s.commit(b),
	)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.catalog[step], s.mu.nextID = next, next+1
	return next, nil
}

// Reset makes all KVs stale and drops what they had not written: the next KVs
// see the state of the last Write. It waits for a Write that is under way.
func (s *Store) Reset() {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaceLocked(func(*TaskKV) bool { return true })
}

// Steps lists the steps that have a place in the catalog, sorted.
func (s *Store) Steps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.mu.catalog))
	for step := range s.mu.catalog {
		out = append(out, step)
	}
	slices.Sort(out)
	return out
}

// Drop removes a step's state and its id, durably. Its KVs become stale. A step
// that is not there is no error.
func (s *Store) Drop(step string) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	id, ok := s.mu.catalog[step]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	err := errors.Join(
		b.DeleteRange(appendStatePrefix(nil, id, 0), appendIDEnd(nil, id), nil),
		b.Delete(catalogKey(step), nil),
		s.commit(b),
	)
	if err != nil {
		return fmt.Errorf("drop state of step %q: %w", step, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.catalog, step)
	s.replaceLocked(func(kv *TaskKV) bool { return kv.id == id })
	return nil
}

// DiskBytes is the size of the store's files, its log included.
func (s *Store) DiskBytes() int64 {
	if s.enter() != nil {
		return 0
	}
	defer s.leave()
	return int64(s.db.Metrics().DiskSpaceUsage())
}

// Close waits for calls under way and closes the store. It may be called twice;
// every call returns the same. What was not written is lost.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		<-s.mu.done
		return s.mu.closing
	}
	s.mu.closed = true
	s.mu.Unlock()
	s.inUse.Wait()
	// The pid goes before the lock does: afterwards it is another's.
	_ = s.fs.Remove(s.fs.PathJoin(s.dir, pidFile))
	err := errors.Join(s.db.Close(), s.lock.Close())
	if err != nil {
		err = fmt.Errorf("close state: %w", err)
	}
	s.mu.closing = err
	close(s.mu.done)
	return err
}
