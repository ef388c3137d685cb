// Package expr compiles and evaluates expressions: PostgreSQL's syntax, names,
// types, null logic and rounding, over Arrow record batches, column by column.
// It is pure: it reads no clock, no network and no state.
//
// [Compile] parses a text, checks it against the user's columns of a schema and
// folds constants; what is wrong is an [*Error] that points into the text. An
// [Evaluator] then runs it over batches. A row that cannot be computed (division
// by zero, overflow, a failed cast) is a [RowError], never an error of the
// batch.
//
// The way through the package: lex.go and parse.go make a tree of [ast];
// check.go gives every part its type and turns it into nodes, with the help of
// the registry of functions, operators and casts (registry.go); vec.go is what a
// kernel sees of a column; the kernels themselves stand in the files named after
// what they compute. A new function is one entry in a table there and one
// kernel: a loop over rows that reads its operands through a mask, so that a
// constant operand needs no second loop.
//
// Differences from PostgreSQL are listed in docs/differences.md.
package expr
