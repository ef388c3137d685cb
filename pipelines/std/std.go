// Package std links the components that Frazil comes with. It is the only list
// of them, and it holds nothing else.
package std

import (
	_ "frazil/operators"
	_ "frazil/sinks/console"
	_ "frazil/sinks/drop"
	_ "frazil/sinks/files"
	_ "frazil/sinks/http"
	_ "frazil/sinks/iceberg"
	_ "frazil/sinks/kafka"
	_ "frazil/sinks/mqtt"
	_ "frazil/sinks/postgres"
	_ "frazil/sources/files"
	_ "frazil/sources/generate"
	_ "frazil/sources/http"
	_ "frazil/sources/kafka"
	_ "frazil/sources/mqtt"
	_ "frazil/sources/outbox"
)
