package main

import (
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestTheFirstSignalStopsGracefullyAndALaterOneAtOnce: one that comes with the
// first, as from timeout(1), is not a second.
func TestTheFirstSignalStopsGracefullyAndALaterOneAtOnce(t *testing.T) {
	sig, done, ended := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	clock := time.Unix(0, 0)
	var did []string
	go func() {
		defer close(ended)
		obey(sig, done, func() time.Time { return clock }, func() { did = append(did, "stop") }, func() { did = append(did, "cancel") }, slog.New(slog.DiscardHandler))
	}()
	clock = time.Unix(100, 0)
	sig <- syscall.SIGTERM
	sig <- syscall.SIGTERM
	close(done)
	<-ended
	if !slices.Equal(did, []string{"stop"}) {
		t.Errorf("two signals at once: %v", did)
	}

	did, done, ended = nil, make(chan struct{}), make(chan struct{})
	times := []time.Time{time.Unix(100, 0), time.Unix(101, 0)}
	go func() {
		defer close(ended)
		obey(sig, done, func() time.Time { at := times[0]; times = times[1:]; return at }, func() { did = append(did, "stop") }, func() { did = append(did, "cancel") }, slog.New(slog.DiscardHandler))
	}()
	sig <- syscall.SIGTERM
	sig <- os.Interrupt
	close(done)
	<-ended
	if !slices.Equal(did, []string{"stop", "cancel"}) {
		t.Errorf("two signals a second apart: %v", did)
	}
}
