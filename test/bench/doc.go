// Package bench measures whole pipelines: the real program as a process of its
// own, on generated bids of 250 bytes, its processor time and memory taken from
// the kernel when it ends.
//
//	go test ./test/bench                              # the outputs, row by row, on small input
//	go test ./test/bench -run xxx -bench Files        # files -> filter, window, dedup -> drop
//	go test ./test/bench -run xxx -bench Nexmark      # the queries of examples/nexmark
//	go test ./test/bench -run xxx -bench StateKeys    # dedup of more keys than memory
//	go test ./test/bench -run xxx -bench StateSessions # more sessions than memory
//	go test ./test/bench -run xxx -bench Kafka        # Kafka -> Iceberg
//	go test ./test/bench -run xxx -bench 'Latency|Idle'
//	go test ./test/bench -run xxx -bench Outbox       # outbox -> Kafka, and how long it takes
//
// BenchmarkDebezium is the work of BenchmarkOutbox by Debezium's outbox router; see
// test/bench/debezium/install.
//
// With -benchtime 3x a benchmark runs three times and reports the run that took
// the least processor time. docs/benchmarks.md has figures.
//
// FRAZIL_TEST_KAFKA names a broker (HOST:PORT); one is started if it is not set.
// FRAZIL_BENCH_DIR is where input is kept between runs (default: a folder of the
// system's temporary one), FRAZIL_BENCH_ROWS how many millions of bids (for
// Nexmark: of events), and FRAZIL_BENCH_BIN names a program to measure instead of
// a new one.
// FRAZIL_BENCH_PROFILE names a folder for a CPU profile of each run.
package bench
