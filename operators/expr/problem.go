package expr

import (
	"errors"

	"frazil/dataflow/component"
)

// Problem makes an error of Compile, ParseAggregate or ParseOrder a problem of the text
// at path, at its place there.
func Problem(path string, err error) component.Problem {
	p := component.Problem{Path: path, Msg: err.Error()}
	var e *Error
	if errors.As(err, &e) {
		p.Offset = e.Offset
	}
	return p
}
