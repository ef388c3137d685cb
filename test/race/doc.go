// Package race runs the tests of the repository under Go's race detector: in the
// short tier, with -short, those of the packages in which goroutines meet; in the
// full tier those of every package, each a portion, and the tests of the whole
// program with a program that was built with the detector. It needs a C compiler,
// which the detector is linked by.
package race
