// Package generate is the source "generate": records made up by the program
// itself, for trying things out, for tests and for benchmarks. It has three
// kinds: "fleet", a simulated fleet of devices that sends JSON with all the
// faults of a real one, "counter", plain typed rows, and "nexmark", the events of
// the benchmark of that name.
//
// All are pure functions of the configuration and of (split, index): nothing
// is drawn from a clock or from a generator with a state, so that reading can
// go on at any position at once, in any process, and gives the same records.
// Time is simulated and starts at the configured start.
//
// It reads nothing from outside. Start to read at [Fleet], which tests also use
// to work out the expected tables apart from the engine; [Nexmark] is for the
// same.
package generate
