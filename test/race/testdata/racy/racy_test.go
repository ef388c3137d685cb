// Package racy holds a race, for the test that looks whether one is seen.
package racy

import (
	"sync"
	"testing"
)

func TestRacy(t *testing.T) {
	var n int
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() { n++ })
	}
	work.Wait()
	t.Log(n)
}
