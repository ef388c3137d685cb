// Package rehearsal plays a pipeline under an order of events that is given
// beforehand: on the real engine and a real state store, with sources that give
// written records, sinks that keep their rows, and a clock that stands still. A
// [Piece] says what happens; a [Variant] plays it in one of many ways that must
// all give the same rows: other batches, other parallelism, other interleavings,
// crashes, a state that is lost. It opens no connection.
//
// The tests in pipeline files and the scripts of operators are played by it.
package rehearsal
