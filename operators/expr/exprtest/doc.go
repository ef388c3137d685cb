// Package exprtest makes random rows and random expressions over them, for tests:
// of the registry's functions, operators and casts, so that a new one is covered by
// itself, and of the forms with a syntax of their own. The texts are PostgreSQL's as
// well, so that a server can be asked for the answers.
//
// It promises nothing about the answers; it knows no values of functions.
package exprtest
