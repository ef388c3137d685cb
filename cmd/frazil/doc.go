// Command frazil runs and checks pipelines.
//
// Each subcommand is one file that registers itself with [register]; main only
// finds it by name. Exit codes: 0 fine, 1 failed at run time, 2 the pipeline
// file or the command line is wrong.
package main
