// Package metamorphic holds no code, only a test: random pipelines over random
// rows must give the same rows under random configurations, that is batches,
// interleaving of splits, parallelism, epochs, stops, crashes and lost states.
// Nothing says what the rows are; see package oracle for that.
package metamorphic
