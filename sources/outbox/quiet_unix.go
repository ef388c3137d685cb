//go:build unix

package outbox

import "syscall"

// setLowWater lets a socket wake its reader only once so many bytes are there, where the
// kernel knows that.
func setLowWater(c syscall.RawConn, bytes int) {
	_ = c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, bytes) })
}
