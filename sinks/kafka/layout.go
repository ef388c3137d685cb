package kafka

import (
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// layout says where the parts of a record come from.
type layout struct {
	topic *expr.Template
	// key and value: nil means none, and a JSON object of all columns.
	key, value, partition, timestamp *expr.Expr
	headers                          []header
	// upserts: the input is a changelog; keys are the names of its key.
	upserts bool
	keys    []string
}

type header struct {
	name string
	expr *expr.Expr
	// required: a row without it is bad.
	required bool
}

func newLayout(in dataflow.Stream, cfg Config) (*layout, component.Problems) {
	l := &layout{upserts: in.Changelog, keys: in.Key}
	var out component.Problems
	compile := func(path, text string, fits func(arrow.DataType) bool, want string) *expr.Expr {
		if text == "" {
			return nil
		}
		e, err := expr.Compile(text, in.Schema)
		switch {
		case err != nil:
			out = append(out, expr.Problem(path, err))
		case fits != nil && !fits(e.Type()):
			out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf("expected %s, this expression gives %s", want, dataflow.TypeName(e.Type()))})
		}
		return e
	}
	topic, problems := expr.ParseTemplate("topic", cfg.Topic, in.Schema)
	out = append(out, problems...)
	if len(problems) == 0 {
		if name, ok := topic.Constant(); ok && !brokers.ValidTopic(name) {
			out = append(out, component.Problem{Path: "topic", Msg: fmt.Sprintf("topic %q: expected 1 to 249 of the characters a-z A-Z 0-9 . _ -", name)})
		}
	}
	l.topic = topic
	l.key = compile("key", cfg.Key, nil, "")
	l.value = compile("value", cfg.Value, nil, "")
	l.partition = compile("partition", cfg.Partition, isInteger, "an integer")
	l.timestamp = compile("timestamp", cfg.Timestamp, isTimestamp, "timestamptz or timestamp")
	for _, h := range cfg.Headers {
		l.headers = append(l.headers, header{h.Name, compile("headers."+h.Name, h.Expr, nil, ""), false})
	}
	events, problems := cfg.CloudEvents.headers(cfg)
	out = append(out, problems...)
	for _, h := range events {
		fits, want := isScalar, "a single value"
		if h.name == "ce_time" {
			fits, want = isTimestampTZ, "timestamptz"
		}
		if h.path == "" || !h.required && h.name != "ce_time" {
			fits = nil
		}
		l.headers = append(l.headers, header{h.name, compile(h.path, h.expr, fits, want), h.required})
	}
	if l.upserts && l.key != nil {
		for _, c := range l.key.Columns() {
			if !slices.Contains(in.Key, c) {
				out = append(out, component.Problem{Path: "key", Msg: fmt.Sprintf("column %q is no part of the key %v of the changelog: records of one row would have several keys", c, in.Key)})
			}
		}
	}
	return l, out
}

func isInteger(t arrow.DataType) bool {
	return t.ID() == arrow.INT32 || t.ID() == arrow.INT64
}

func isScalar(t arrow.DataType) bool { return t.ID() != arrow.LIST && t.ID() != arrow.STRUCT }

func isTimestampTZ(t arrow.DataType) bool { return arrow.TypeEqual(t, dataflow.TypeTimestampTZ) }

func isTimestamp(t arrow.DataType) bool { return t.ID() == arrow.TIMESTAMP }
