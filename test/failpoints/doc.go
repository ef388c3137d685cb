// Package failpoints lets every step of checkpoint, log, state and commit go wrong, as
// package failpoint lists them: each by an error, a panic, a SIGKILL and by standing
// still, the first time, the second time and during the recovery from another failure;
// and by an error each site after each. The whole engine runs, planned from YAML: a
// pipeline that is posted to, with its write-ahead log, and one that reads files, with
// windows, a quarantine, and muted replays from old state, both into Iceberg tables and
// folders. At the end every row is compared.
//
//	go test -tags failpoints ./test/failpoints
package failpoints
