package dataflow

import (
	"context"
	"sync"
)

// GoPart makes a Pending of f, which runs in a goroutine of work; a panic of it is an
// error. f goes on also when nobody waits for the part any more.
func GoPart(work *sync.WaitGroup, f func() (Part, error)) Pending {
	p := &running{done: make(chan struct{})}
	work.Go(func() {
		defer close(p.done)
		p.err = Guarded(func() (err error) {
			p.part, err = f()
			return err
		})
	})
	return p
}

type running struct {
	done chan struct{}
	part Part
	err  error
}

// Part implements Pending.
func (p *running) Part(ctx context.Context) (Part, error) {
	select {
	case <-p.done:
		return p.part, p.err
	case <-ctx.Done():
		return Part{}, ctx.Err()
	}
}
