package kafka

import (
	"fmt"

	"frazil/dataflow/component"
)

// EventConfig gives the attributes of CloudEvents by expressions.
type EventConfig struct {
	// ID of the event: with source it is told apart from all others. A row for which it,
	// source or type is null or empty is bad (invalid_event).
	ID string `yaml:"id,required"`
	// Source is where events come from, as '/shop/orders'.
	Source string `yaml:"source,required"`
	// Type of the event, as 'shop.order.paid'.
	Type string `yaml:"type,required"`
	// Subject is what the event is about. Default: none.
	Subject string `yaml:"subject"`
	// Time, of type timestamptz. Default: none.
	Time string `yaml:"time"`
	// DataSchema is the URI of the schema of the data. Default: none.
	DataSchema string `yaml:"dataschema"`
	// DataContentType is the header content-type. Default: that of the value: JSON, or
	// the format under encode; none of a value that is an expression.
	DataContentType string `yaml:"datacontenttype"`
	// Extensions maps names of more attributes, of letters a to z and digits, to
	// expressions; one that is null is left out. Default: none.
	Extensions component.NamedExprs `yaml:"extensions"`
}

// eventHeader is a header of an event.
type eventHeader struct {
	path, name, expr string
	required         bool
}

// headers lists what the config makes.
func (c *EventConfig) headers(cfg Config) (out []eventHeader, problems component.Problems) {
	if c == nil {
		return nil, nil
	}
	out = append(out, eventHeader{name: "ce_specversion", expr: "'1.0'"})
	add := func(path, name, expr string, required bool) {
		if expr != "" {
			out = append(out, eventHeader{"cloudevents." + path, name, expr, required})
		}
	}
	add("id", "ce_id", c.ID, true)
	add("source", "ce_source", c.Source, true)
	add("type", "ce_type", c.Type, true)
	add("subject", "ce_subject", c.Subject, false)
	add("time", "ce_time", c.Time, false)
	add("dataschema", "ce_dataschema", c.DataSchema, false)
	switch {
	case c.DataContentType != "":
		add("datacontenttype", "content-type", c.DataContentType, false)
	case cfg.Value == "":
		out = append(out, eventHeader{name: "content-type", expr: "'" + cfg.contentType() + "'"})
	}
	for _, x := range c.Extensions {
		path := "extensions." + x.Name
		if !isAttribute(x.Name) {
			problems = append(problems, component.Problem{Path: "cloudevents." + path, Msg: fmt.Sprintf("attribute %q: names are of the letters a to z and of digits", x.Name)})
		}
		add(path, "ce_"+x.Name, x.Expr, false)
	}
	return out, problems
}

func isAttribute(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// contentType is that of values.
func (c Config) contentType() string {
	if c.Encode == nil {
		return "application/json"
	}
	switch key, _, _, _ := c.Encode.chosen(); key {
	case "avro":
		return "application/avro"
	case "protobuf":
		return "application/protobuf"
	}
	return "application/json"
}
