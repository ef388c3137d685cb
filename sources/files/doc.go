// Package files is the source "files": newline-delimited records in plain, gzip
// and zstd files.
//
// Files are read in lanes. A lane is a split: its files in the order of their
// names, one after the other, with one position and one watermark through all of
// them. The position counts the lines of the lane and names the file, the line
// and the byte at which reading goes on; the files before that one are finished
// and collapse to their number and one sum over their names, sizes and times of
// change. A finished file that changed, one that appears before it, and a file
// whose bytes before the position are not those that were read are a gap.
//
// Delivery: every line once per position; a blank line is no record; a line that
// cannot be decoded leaves by "bad" with its bytes. Ordering: that of the lane.
// Memory: one block per lane (256 KiB, up to the largest record) and one batch.
//
// Start to read at [Config] and [Source].
package files
