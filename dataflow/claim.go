package dataflow

import "context"

// Claim is a process's right to commit to the targets of one pipeline. Positions
// fence a single target; with several, two processes on copies of one state could
// each win some of them. So a process claims all of them, in one order, before its
// first commit, and every commit checks that the claim still stands. The idea is
// the fencing token of Kleppmann, Designing Data-Intensive Applications, chapter 8.
type Claim struct {
	// Token grows with every claim.
	Token uint64 `json:"token"`
	// By tells two claims with one token apart; random.
	By string `json:"by"`
}

// Claimer is a Committer whose target can hold a claim for the pipeline and sink.
type Claimer interface {
	Committer
	// Claim puts c in the place of a claim with a lower token. It stands there
	// already: nil. One with the same or a higher token: ErrFenced. When Claim
	// has returned nil, no commit that carries another claim is published,
	// whatever it had looked at before.
	Claim(ctx context.Context, c Claim) error
}

// DecideClaim compares the claim that a target holds with one that is wanted.
// Every Claimer uses it.
func DecideClaim(held, want Claim) CommitDecision {
	switch {
	case held == want:
		return Done
	case want.Token > held.Token:
		return Publish
	}
	return Fenced
}
