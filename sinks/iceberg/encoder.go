package iceberg

import (
	"context"
	"sync"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergo "github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

const (
	// maxOpenFiles bounds the files of one epoch that are open between flushes.
	maxOpenFiles = 32
	// finishers is how many files are finished at the same time: they wait for
	// the store more than for the processor.
	finishers = 8
)

// staging is what one epoch has staged. The writer's goroutine owns parts and
// rows until it is cut, the encoder's everything else until done is closed.
type staging struct {
	parts map[string]*partition
	rows  int64

	open []*partition
	mu   struct {
		sync.Mutex
		paths []string // of all files begun
	}
	files []icebergo.DataFile
	err   error
	done  chan struct{}
}

func newStaging() *staging {
	return &staging{parts: map[string]*partition{}, done: make(chan struct{})}
}

// flush is rows on their way into a file.
type flush struct {
	part    *partition
	batches []arrow.RecordBatch
	bytes   int64
}

// job is work for the encoder. last: the epoch is cut, finish its files. drop:
// the epoch will never be cut, remove its files.
type job struct {
	staging    *staging
	flushes    []flush
	last, drop bool
}

// encoder writes rows into files, in the order of its jobs, in a goroutine of
// its own. Jobs are bounded by the rows' quota, which is given back as rows
// reach their file.
type encoder struct {
	fs       icebergio.WriteFileIO
	mem      memory.Allocator
	quota    *semaphore.Weighted
	layout   *layout
	fileSize int64
	tick     int64
	cancel   context.CancelFunc
	finished sync.WaitGroup

	mu struct {
		sync.Mutex
		wake    *sync.Cond
		jobs    []job
		stopped bool
		err     error // the first failure: the writer is of no more use
	}
}

func startEncoder(cancel context.CancelFunc, fs icebergio.WriteFileIO, mem memory.Allocator, quota *semaphore.Weighted, l *layout, fileSize int64) *encoder {
	e := &encoder{fs: fs, mem: mem, quota: quota, layout: l, fileSize: fileSize, cancel: cancel}
	e.mu.wake = sync.NewCond(&e.mu)
	e.finished.Go(e.run)
	return e
}

// put queues a job. It never blocks.
func (e *encoder) put(j job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.jobs = append(e.mu.jobs, j)
	e.mu.wake.Signal()
}

// failure returns the first error of any job.
func (e *encoder) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.err
}

// stop works off the jobs that are queued and ends the goroutine.
func (e *encoder) stop() {
	e.mu.Lock()
	e.mu.stopped = true
	e.mu.wake.Signal()
	e.mu.Unlock()
	e.finished.Wait()
	e.cancel()
}

func (e *encoder) run() {
	for {
		e.mu.Lock()
		for len(e.mu.jobs) == 0 && !e.mu.stopped {
			e.mu.wake.Wait()
		}
		if len(e.mu.jobs) == 0 {
			e.mu.Unlock()
			return
		}
		j := e.mu.jobs[0]
		e.mu.jobs = e.mu.jobs[1:]
		e.mu.Unlock()
		e.do(j)
	}
}

func (e *encoder) do(j job) {
	st := j.staging
	switch {
	case j.drop:
		for _, f := range j.flushes {
			e.release(f)
		}
		e.discard(st)
		return
	case j.last:
		e.finishAll(st, j.flushes)
	default:
		for _, f := range j.flushes {
			if st.err == nil {
				st.err = dataflow.Guarded(func() error { return e.write(st, f) })
			}
			e.release(f)
		}
	}
	if st.err != nil {
		e.mu.Lock()
		if e.mu.err == nil {
			e.mu.err = st.err
		}
		e.mu.Unlock()
	}
	if j.last {
		if st.err != nil {
			e.discard(st)
		}
		close(st.done)
	}
}

// release gives the rows' memory back.
func (e *encoder) release(f flush) {
	for _, b := range f.batches {
		b.Release()
	}
	if f.bytes > 0 {
		e.quota.Release(f.bytes)
	}
}

// write adds rows to their partition's file, which stays open unless it is full
// or too many are.
func (e *encoder) write(st *staging, f flush) error {
	p := f.part
	if p.file == nil {
		if len(st.open) >= maxOpenFiles {
			if err := e.finishOldest(st); err != nil {
				return err
			}
		}
		if err := e.begin(st, f); err != nil {
			return err
		}
		st.open = append(st.open, p)
	}
	e.tick++
	p.used = e.tick
	if err := p.file.write(e.mem, f.batches); err != nil {
		return err
	}
	if p.file.size.n < e.fileSize {
		return nil
	}
	return e.finish(st, p)
}

func (e *encoder) begin(st *staging, f flush) error {
	file, err := createFile(e.fs, e.mem, e.layout, f.part.dir, f.part.values, f.batches)
	if err != nil {
		return err
	}
	f.part.file = file
	st.mu.Lock()
	st.mu.paths = append(st.mu.paths, file.path)
	st.mu.Unlock()
	return nil
}

func (e *encoder) finishOldest(st *staging) error {
	oldest := st.open[0]
	for _, p := range st.open {
		if p.used < oldest.used {
			oldest = p
		}
	}
	return e.finish(st, oldest)
}

// finish closes p's open file and counts it as staged.
func (e *encoder) finish(st *staging, p *partition) error {
	file := p.file
	p.file = nil
	for i, o := range st.open {
		if o == p {
			st.open = append(st.open[:i], st.open[i+1:]...)
			break
		}
	}
	df, err := file.finish()
	if err != nil {
		return err
	}
	st.files = append(st.files, df)
	return nil
}

// finishAll writes the epoch's last rows and finishes all its files, several at
// a time.
func (e *encoder) finishAll(st *staging, flushes []flush) {
	defer func() {
		for _, f := range flushes {
			e.release(f)
		}
	}()
	if st.err != nil {
		return
	}
	files := make([]icebergo.DataFile, len(flushes))
	var g errgroup.Group
	g.SetLimit(finishers)
	for i, f := range flushes {
		p := f.part
		if p.file == nil && len(f.batches) == 0 {
			continue
		}
		g.Go(func() error {
			return dataflow.Guarded(func() (err error) {
				files[i], err = e.complete(st, f)
				return err
			})
		})
	}
	st.err = g.Wait()
	st.open = nil
	for _, f := range files {
		if f != nil {
			st.files = append(st.files, f)
		}
	}
}

// complete writes the last rows of a partition and finishes its file.
func (e *encoder) complete(st *staging, f flush) (icebergo.DataFile, error) {
	p := f.part
	if p.file == nil {
		if err := e.begin(st, f); err != nil {
			return nil, err
		}
	}
	if len(f.batches) > 0 {
		if err := p.file.write(e.mem, f.batches); err != nil {
			return nil, err
		}
	}
	file := p.file
	p.file = nil
	return file.finish()
}

// discard closes and removes the files of an epoch that no Part names.
func (e *encoder) discard(st *staging) {
	for _, p := range st.parts {
		if file := p.file; file != nil {
			p.file = nil
			_ = dataflow.Guarded(func() error { file.abandon(); return nil }) // It may be half written.
		}
	}
	st.open = nil
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, path := range st.mu.paths {
		// What cannot be removed is an orphan, which costs space and no more.
		_ = e.fs.Remove(path)
	}
}
