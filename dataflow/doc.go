// Package dataflow holds the contracts of Frazil: what a source, an operator
// and a sink promise to the engine and what the engine promises to them. It
// holds no engine, no component and no outside client.
//
// The model on one page:
//
// A pipeline is a graph of steps. A source reads splits (partitions, lanes of
// files) and sends Arrow record batches; operators turn batches into batches;
// sinks stage rows and publish them. Beside the batches run control events: a
// watermark says that no row with an earlier stamp follows, a barrier cuts the
// stream into epochs, an end says that nothing follows at all.
//
// Every row carries hidden system columns, all with the prefix "_" (see
// [SysTime]): its event time, its stamp (the watermark its own split had just
// before it), its split and its position in the split. Lateness is judged by
// the row's own stamp, so that results do not depend on speed, batching or
// parallelism.
//
// An epoch ends when its manifest is durable: positions of all splits, the
// changes of keyed state and the staged parts of all sinks, in one synced
// write. Commits to the targets follow behind it, in order, each identified by
// the source positions it covers.
//
// Every row has one counted fate (see [Fates]); rows that cannot go on leave
// through the ports "late" and "bad".
//
// Start to read at [Source], [Operator], [Writer] and [Committer].
package dataflow
