package engine

import (
	"fmt"
	"runtime/debug"
)

// guard turns a panic of a component into an error that restarts the pipeline,
// with the stack in it for the log.
func guard(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("task %s: panic: %v\n%s", name, p, debug.Stack())
		}
	}()
	return f()
}
