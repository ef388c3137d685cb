// Package expressions holds the answers of operators/expr against those of a
// PostgreSQL server that runs beside it, for random expressions over random rows.
//
// A row on which both differ is taken apart: the smallest part with equal operands
// and different values is either a difference on purpose, which a rule of rules_test.go
// names, and then takes our value on both sides, so that the rest is compared as
// well; or it is a fault.
package expressions
