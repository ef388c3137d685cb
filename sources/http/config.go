package http

import (
	"frazil/dataflow/ingest"
)

// Config of the source.
type Config struct {
	ingest.Config `yaml:",inline"`
	// Address to listen on. Default: 127.0.0.1:4190.
	Listen string `yaml:"listen"`
	// Path that records are posted to. Default: /STEP.
	Path string `yaml:"path"`
}
