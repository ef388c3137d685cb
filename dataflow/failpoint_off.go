//go:build !failpoints

package dataflow

// Failpoint marks a step of checkpoint or commit at which tests kill the
// process. It does nothing unless the program is built with the tag failpoints.
func Failpoint(string) {}
