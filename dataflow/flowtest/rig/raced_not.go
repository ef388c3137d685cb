//go:build !race

package rig

// Raced: the tests run under the race detector, which takes several times the memory and
// the time, so that bounds of these mean nothing.
const Raced = false
