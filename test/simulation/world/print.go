package world

import (
	"encoding/json"
	"fmt"
	"io"
)

// Print writes the result as one line of JSON.
func (w *World) Print(out io.Writer) { w.result().Print(out) }

// Print writes r as one line of JSON.
func (r Result) Print(out io.Writer) {
	raw, err := json.Marshal(r)
	if err != nil {
		raw = []byte(fmt.Sprintf("%q", err.Error()))
	}
	fmt.Fprintln(out, string(raw))
}
