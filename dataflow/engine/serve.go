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
	j.served = map[string]io.Closer{}
	for _, s := range j.g.Sources {
		if s.Serve == nil {
			continue
		}
		env := &dataflow.Env{
			Pipeline: j.g.Name, Step: s.Name, Tasks: 1, Dir: j.g.Dir, Now: j.o.Now, Alloc: memory.DefaultAllocator,
			Log: j.o.Log.With("step", s.Name), NewDecoder: s.NewDecoder, WALDir: j.o.WALDir, Preview: j.o.Preview,
			Memory: max(j.o.Memory/8/int64(len(j.g.Sources)), 4<<20),
		}
		c, err := s.Serve(ctx, env)
		if err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
		j.served[s.Name] = c
	}
	return nil
}

func (j *Job) endServing() error {
	var errs []error
	for _, s := range j.g.Sources {
		if c := j.served[s.Name]; c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
