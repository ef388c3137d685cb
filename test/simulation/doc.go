// Package simulation runs whole worlds from one seed each: the real engine with its
// state, log and operators in one process, and around it simulated brokers, producers,
// a catalog, a disk that forgets what was not synced, and a clock that jumps. A world
// lasts ten virtual minutes, of which none is waited for; then what its tables hold is
// compared with a model (package model), and everything on the way with the invariants
// of docs/invariants.md.
//
// One seed is one run, to the last goroutine. A Go program cannot promise that: threads,
// select and maps are random, and time passes. So the world (package world, command
// guest) runs in a process of its own that is built against a changed runtime
// (guest_test.go, testdata/overlay): time stands still while a goroutine can run, and
// goes on to the next timer when none can; what is random, with it the scheduler's next
// goroutine, the order of maps and select, follows from the arguments; one goroutine
// runs at a time, and no thread looks after it. A hash over everything that happened,
// with its virtual times, says whether two runs were the same; a failing seed is run
// again, and must give the same hash, also with a trace.
//
// What that means for schedules: goroutines are interleaved at the points at which they
// wait, in an order that the seed decides, never in the middle of a stretch without
// waiting. Data races are for the race detector.
//
// The changes of the runtime name lines of Go's source; where a version of Go has them
// no more, the build says so.
//
// What worlds leave out: a second process on a copy of the disk (world.Options.Second)
// is off, since two processes whose clocks decided differently are told apart by their
// watermarks alone.
//
//	go test ./test/simulation                        a few seeds of each suite
//	FRAZIL_SIMULATION=1 go test ./test/simulation    and engines that are broken
//	FRAZIL_PORTION=17 FRAZIL_SIM_TRACE=1 go test ./test/simulation -run 'Worlds'
//	                                                 one seed, with all that happens
//	FRAZIL_SIM_GUEST=FILE                            a guest built before
package simulation
