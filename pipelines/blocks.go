package pipelines

import (
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
)

// Blocks describes the parts of a pipeline file that are no component, in the
// form of one, for the reference: the top of the file, decode, event_time, a test
// and the parts of a test.
func Blocks() []component.Info {
	return []component.Info{
		{
			Kind: "block", Name: "pipeline", Summary: "The top of a pipeline file.",
			Doc: `Steps stand under sources, operators and sinks by name: lower case letters, digits and "_", one name space for all three. A step has exactly one component with everything of it nested inside; operators and sinks name their input in from: STEP, or STEP.late and STEP.bad for the other ports. A port with several readers gives each of them every row; rows of the ports late and bad that nobody reads go to the quarantine.

Values may hold ${NAME} and ${NAME:-default}, expanded after the YAML is read, and $${ for the characters themselves. Options that are secrets also take ${env:NAME} and ${file:PATH}, which are never printed.`,
			NewConfig: func() any { c := defaultFile(); return &c },
		},
		{
			Kind: "block", Name: "decode", Summary: "How the bytes of a source become rows; stands in a source, beside its component.",
			Doc: `A missing field and null are null. A value of another type makes the record bad: nothing is coerced, "1" is no integer, but 1.0 and 1e3 are. A decimal may also be a text that holds a number, a time is RFC 3339 text unless its type names a unit, binary is text in base64. Of a key that comes twice the last one counts. Records that cannot be decoded leave by the port bad with their bytes and their place.

frazil infer FILE proposes the block from a sample.`,
			NewConfig: func() any { return &codec.Config{} },
		},
		{
			Kind: "block", Name: "event_time", Summary: "Which column of a source is the event time; stands in a source, beside its component.",
			Doc: "A source without it feeds no window. A row whose event time is null leaves by the port bad.",
			NewConfig: func() any {
				return &eventTimeConfig{DiscoverEvery: component.Duration(defaultDiscovery)}
			},
		},
		{
			Kind: "block", Name: "test", Summary: "A test of the pipeline; stands in the list tests at the top of the file.",
			Doc:       `frazil test plays it with sources and sinks replaced, in many variants that must all give the same rows. A step is one of the words checkpoint, kill, stop, end, or a block with one of the keys rows, watermark, idle, clock, expect. The guide "Tests in the pipeline file" shows them all.`,
			NewConfig: func() any { return &testConfig{} },
		},
		{
			Kind: "block", Name: "test_step", Summary: "What one step of a test does.",
			NewConfig: func() any { return &plainStep{} },
		},
		{
			Kind: "block", Name: "test_rows", Summary: "Rows that come in, in a step of a test.",
			Doc:       "Instead of the block a list of payloads may stand: they come from the only source, in the split p0.",
			NewConfig: func() any { return &plainRows{} },
		},
		{
			Kind: "block", Name: "test_output", Summary: "The long form of what a test expects of one output; the short one is the list of rows.",
			NewConfig: func() any { return &outputConfig{} },
		},
	}
}
