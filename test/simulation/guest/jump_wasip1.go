package main

import "time"

//go:wasmimport sim jump
func hostJump(nanos int64)

func jump(d time.Duration) { hostJump(int64(d)) }
