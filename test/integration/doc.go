// Package integration tests the program as users run it: the built command,
// real stores and catalogs, and other programs that read what it wrote.
package integration
