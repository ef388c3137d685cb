package iceberg

import "unsafe"

// unsafeBytes views s as bytes, to be read only.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
