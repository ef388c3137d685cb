package engine

import (
	"context"
	"errors"
	"testing"
)

// Whoever asks the quarantine while its attempt ends is told so, and does not wait for
// an answer that cannot come.
func TestAQuestionToAnAttemptThatEndsIsAnswered(t *testing.T) {
	p := &plant{quar: &quarantineTask{in: newInbox(0, 0)}, over: make(chan struct{})}
	answer := make(chan error)
	go func() {
		answer <- p.ask(context.Background(), func() { t.Error("nobody can have answered") })
	}()
	for asked := false; !asked; {
		p.quar.in.mu.Lock()
		asked = len(p.quar.in.asks) > 0
		p.quar.in.mu.Unlock()
	}
	p.quar.in.stop()
	close(p.over)
	if err := <-answer; !errors.Is(err, errNotConnected) {
		t.Fatal(err)
	}
	if err := p.ask(context.Background(), func() {}); !errors.Is(err, errNotConnected) {
		t.Fatal(err)
	}
}
