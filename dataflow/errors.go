package dataflow

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrFenced: another process writes the targets of this pipeline.
	ErrFenced = errors.New("fenced: another process has taken over the targets of this pipeline")
	// ErrPermanent marks errors that no retry can heal: no such table and may
	// not create it, access denied, a schema that does not fit.
	ErrPermanent = errors.New("permanent")
	// ErrGap: records that should be read no longer exist, or changed.
	ErrGap = errors.New("gap")
	// ErrUnavailable marks the failure of a server outside, as of an object store,
	// which time heals: the pipeline starts again from the last epoch for as long as
	// it takes, as with a server that it cannot connect to.
	ErrUnavailable = errors.New("unavailable")
)

// Unavailable marks err as the failure of a server outside. What is permanent stays
// so.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrPermanent) || errors.Is(err, ErrUnavailable) {
		return err
	}
	return &outside{err}
}

type outside struct{ err error }

func (o *outside) Error() string   { return o.err.Error() }
func (o *outside) Unwrap() []error { return []error{o.err, ErrUnavailable} }

// Guarded calls f and makes a panic of it an error with the stack in it. Goroutines
// of components call it: their panic would end the process, the error restarts the
// pipeline.
func Guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// Permanent marks err so that the pipeline ends instead of retrying.
func Permanent(err error) error {
	if err == nil || errors.Is(err, ErrPermanent) {
		return err
	}
	return &permanent{err}
}

// Permanentf is Permanent of fmt.Errorf.
func Permanentf(format string, args ...any) error { return Permanent(fmt.Errorf(format, args...)) }

type permanent struct{ err error }

func (p *permanent) Error() string   { return p.err.Error() }
func (p *permanent) Unwrap() []error { return []error{p.err, ErrPermanent} }
