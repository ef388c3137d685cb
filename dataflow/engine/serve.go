package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// serve opens what takes the records of push sources, for the whole run.
func (j *Job) serve(ctx context.Context) error {
	for _, s := range j.g.Sources {
		if s.Serve == nil {
			continue
		}
		env := &dataflow.Env{
			Pipeline: j.g.Name, Step: s.Name, Tasks: 1, Dir: j.g.Dir, Now: j.o.Now, Alloc: memory.DefaultAllocator,
			Log: j.o.Log.With("step", s.Name), NewDecoder: s.NewDecoder, WALDir: j.o.WALDir, FS: j.o.Store.FS(), Preview: j.o.Preview,
			Memory: max(j.o.Memory/8/int64(len(j.g.Sources)), 4<<20),
		}
		var c io.Closer
		err := dataflow.Guarded(func() (err error) {
			c, err = s.Serve(ctx, env)
			return err
		})
		if err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
		j.setServed(s.Name, c)
	}
	for _, s := range j.g.Sources {
		if r, ok := j.servedBy(s.Name).(interface{ Ready() }); ok {
			r.Ready()
		}
	}
	return nil
}

func (j *Job) setServed(step string, c io.Closer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.served == nil {
		j.mu.served = map[string]io.Closer{}
	}
	j.mu.served[step] = c
}

// servedBy returns what a source's Serve has opened, nil without one.
func (j *Job) servedBy(step string) any {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.mu.served[step]; c != nil {
		return c
	}
	return nil
}

// endServing closes all of it, in the order of the sources.
func (j *Job) endServing() error {
	j.mu.Lock()
	served := j.mu.served
	j.mu.served = nil
	j.mu.Unlock()
	var errs []error
	for _, s := range j.g.Sources {
		if c := served[s.Name]; c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
