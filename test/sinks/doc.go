// Package sinks writes numbered rows by the real program to real servers - PostgreSQL, an
// HTTP source of another Frazil, an MQTT broker - while one after the other is killed.
//
// A row that is missing is a hole in the numbers, a row that was written twice is there
// twice: every row is compared.
package sinks
