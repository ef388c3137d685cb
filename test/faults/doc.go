// Package faults runs the real program on a real Iceberg REST catalog and a real S3
// server, with proxies of ours before both that spoil requests and answers by a
// seeded plan: errors before and after a request was carried out, answers lost, cut,
// half or slow, answers of an hour ago, tokens that have expired, a second writer who
// is always a little faster. At the end outside readers compare the tables, row by
// row, with what was fed in, and look whether every file that a snapshot names is
// there.
//
//	go test ./test/faults                               some hundred faults
//	FRAZIL_FULL=DIR go test ./test/faults -run Faults   10,000
//	FRAZIL_FULL=DIR go test ./test/faults -run Zombie   45 zombies
//	FRAZIL_PORTION=17 go test ./test/faults -run Faults one portion again
package faults
