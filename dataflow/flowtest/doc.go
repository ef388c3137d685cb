// Package flowtest is how components of Frazil are tested: scripts for
// operators ([Run]) and conformance suites for sources, sinks and key-value
// stores ([SourceSuite], [SinkSuite], [KVSuite]).
//
// A script is one file of three parts, divided by lines of four dashes:
//
//	sources:                       # a pipeline file; its sources and sinks are
//	  in:                          # of the component "script"
//	    script: {splits: [p0, p1]}
//	    decode: {json: {schema: {k: string, et: timestamptz}}}
//	    event_time: {column: et, out_of_orderness: 10s}
//	operators:
//	  minute: {from: in, window: {...}}
//	sinks:
//	  out: {from: minute, script: {}}
//	----
//	in/p0 {"k":"a","et":"T+5"}     # a record; T is 2026-03-01T10:00:00Z
//	in/p1 @T+6 {"k":"b","et":"T+5"} # with the time of its arrival
//	idle in/p1                     # the split is caught up for long enough
//	clock 5s                       # the clock moves on
//	sync                           # rows before and after are never swapped
//	barrier                        # an epoch
//	show                           # an epoch; what is committed so far is expected
//	restart                        # stop with a checkpoint, start again
//	drain                          # the sources end; start again
//	----
//	what is expected, written by -rewrite
//
// Of a sink that gets changes the table is expected that they make when they are
// folded by their key; each change must fit the rows that are there. The fates of
// steps that read changes are left out, since their number is free (I8).
//
// "ordered" among the steps says that the order of rows is expected as well.
// The configuration is loaded by package pipelines and run by the real engine
// on a real state store, so that exchange, alignment, stamps and checkpoint are
// those of the product.
package flowtest
