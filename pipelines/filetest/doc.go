// Package filetest plays the tests of a pipeline file in many variants, says how
// the rows that came differ from those that are expected, and writes the rows
// that came into the file. It prints nothing: see the command's test.
//
// [Play] runs one test, [Rewrite] edits a file, [JUnit] is a report for build
// servers. What a test may say is told in package pipelines.
package filetest
