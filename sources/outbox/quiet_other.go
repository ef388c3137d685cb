//go:build !unix

package outbox

import "syscall"

func setLowWater(syscall.RawConn, int) {}
