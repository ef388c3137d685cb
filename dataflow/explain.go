package dataflow

import "encoding/json"

// Explainer is an optional ability of a keyed Operator with windows: it tells
// people what it holds for one key around one event time. The engine calls it in
// the task's goroutine between two messages; it changes nothing.
type Explainer interface {
	// Explain takes the key as people write it: the value of a single column, the
	// values of several in order and joined by commas, or a JSON object by name;
	// "-" where there is no column. A key that cannot be read is an error.
	Explain(key string, at Time) (Explanation, error)
}

// Explanation is what one task says.
type Explanation struct {
	// Key as it was understood: a JSON object by name.
	Key json.RawMessage
	// Mine: the key is one of those that this task holds.
	Mine bool
	// Windows that hold the time, by Due. Windows that would be made by a row of
	// that time are among them, without Holds.
	Windows []WindowState
	// Waiting counts rows of all keys that wait in front of the step for their
	// turn in stamp order.
	Waiting int64
}

// WindowState is one window of one key.
type WindowState struct {
	// Start is the first time that belongs to the window, End the first behind it.
	Start, End Time
	// Due: the window closes when the step's watermark reaches it.
	Due Time
	// Holds is the row that the window would give now, as a JSON object, of a step
	// that gives several {"rows": [...]}; nil: no row of the key is in it.
	Holds json.RawMessage
}
