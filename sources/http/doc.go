// Package http is the source that services and devices post their records to. A
// record is answered when it is synced to the write-ahead log.
package http
