package iceberg

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	icebergo "github.com/apache/iceberg-go"
)

// plan checks everything that can be known without the catalog.
func plan(in component.SinkIn, cfg Config) (component.SinkPlan, error) {
	var bad component.Problems
	add := func(path, format string, args ...any) {
		bad = append(bad, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if _, err := catalogOf(in.PlanEnv, cfg.Catalog); err != nil {
		add("catalog", "%v", err)
	}
	if _, err := parseTable(cfg.Table); err != nil {
		add("table", "%v", err)
	}
	if cfg.FileSize < 64<<10 {
		add("file_size", "%s is too small: expected 64KiB or more", cfg.FileSize)
	}
	if cfg.FormatVersion != 2 && cfg.FormatVersion != 3 {
		add("format_version", "%d is not supported: expected 2 or 3", cfg.FormatVersion)
	}
	if _, ok := codecs[cfg.Compression]; !ok {
		add("compression", "unknown compression %q: expected zstd, snappy, gzip or none", cfg.Compression)
	}
	for name := range cfg.Properties {
		if strings.HasPrefix(name, "frazil.") {
			add("properties", "%q: the prefix frazil. is reserved", name)
		}
	}
	if in.Input.Changelog {
		add("", "%s is a changelog (its rows are updates and deletes); this sink only appends: put a step before it that gives final results only", in.From)
	}
	schema, err := newSchema(dataflow.UserFields(in.Input.Schema))
	if err != nil {
		add("", "%v", err)
	} else {
		for i, text := range cfg.PartitionBy {
			if _, err := parsePartition(text, schema, in.Input.Schema); err != nil {
				add(fmt.Sprintf("partition_by[%d]", i), "%v", err)
			}
		}
		if len(bad) == 0 {
			if _, err := newSpec(cfg.PartitionBy, schema, in.Input.Schema); err != nil {
				add("partition_by", "%v", err)
			}
		}
	}
	if len(bad) > 0 {
		return component.SinkPlan{}, bad
	}
	return component.SinkPlan{Target: targetName(cfg)}, nil
}

// targetName is the table as people know it: CATALOG/NAMESPACE.NAME.
func targetName(cfg Config) string { return cfg.Catalog + "/" + cfg.Table }

var tablePart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

// parseTable splits a table's name into namespace and name.
func parseTable(text string) ([]string, error) {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return nil, fmt.Errorf("table %q has no namespace: expected NAMESPACE.NAME, as db.%s", text, text)
	}
	for _, p := range parts {
		if !tablePart.MatchString(p) {
			return nil, fmt.Errorf("table %q: part %q may only hold letters, digits, _ and -", text, p)
		}
	}
	return parts, nil
}

// partitionField is one entry of partition_by.
type partitionField struct {
	column    icebergo.NestedField
	transform icebergo.Transform
}

const partitionForms = "expected a column, year(c), month(c), day(c), hour(c), bucket(N, c) or truncate(N, c)"

// parsePartition reads one entry of partition_by against the input's columns.
func parsePartition(text string, schema *icebergo.Schema, input *arrow.Schema) (partitionField, error) {
	name, transform, err := splitPartition(text)
	if err != nil {
		return partitionField{}, err
	}
	f, ok := schema.FindFieldByName(name)
	if !ok || strings.Contains(name, ".") {
		var known []string
		for _, f := range dataflow.UserFields(input) {
			known = append(known, f.Name)
		}
		return partitionField{}, fmt.Errorf("%q: unknown column %q; known: %s%s", text, name, component.Names(known), component.DidYouMean(name, known))
	}
	if !transform.CanTransform(f.Type) {
		t := input.Field(dataflow.Column(input, name)).Type
		return partitionField{}, fmt.Errorf("%q: %s does not take column %q of type %s", text, transform, name, dataflow.TypeName(t))
	}
	return partitionField{f, transform}, nil
}

func splitPartition(text string) (column string, t icebergo.Transform, err error) {
	text = strings.TrimSpace(text)
	open := strings.IndexByte(text, '(')
	if open < 0 {
		if text == "" {
			return "", nil, fmt.Errorf("empty partition: %s", partitionForms)
		}
		return text, icebergo.IdentityTransform{}, nil
	}
	if !strings.HasSuffix(text, ")") {
		return "", nil, fmt.Errorf("%q: no closing parenthesis: %s", text, partitionForms)
	}
	fn, arg := strings.TrimSpace(text[:open]), text[open+1:len(text)-1]
	switch fn {
	case "year":
		t = icebergo.YearTransform{}
	case "month":
		t = icebergo.MonthTransform{}
	case "day":
		t = icebergo.DayTransform{}
	case "hour":
		t = icebergo.HourTransform{}
	case "identity":
		t = icebergo.IdentityTransform{}
	case "bucket", "truncate":
		width, col, ok := strings.Cut(arg, ",")
		n, convErr := strconv.Atoi(strings.TrimSpace(width))
		if !ok || convErr != nil || n < 1 || n > 1<<30 {
			return "", nil, fmt.Errorf("%q: expected %s(N, column) with N of 1 or more", text, fn)
		}
		arg = col
		if t = icebergo.Transform(icebergo.TruncateTransform{Width: n}); fn == "bucket" {
			t = icebergo.BucketTransform{NumBuckets: n}
		}
	default:
		known := []string{"year", "month", "day", "hour", "bucket", "truncate", "identity"}
		return "", nil, fmt.Errorf("%q: unknown transform %q: %s%s", text, fn, partitionForms, component.DidYouMean(fn, known))
	}
	if arg = strings.TrimSpace(arg); arg == "" {
		return "", nil, fmt.Errorf("%q names no column: %s", text, partitionForms)
	}
	return arg, t, nil
}

// newSpec makes the partition spec of a new table.
func newSpec(entries []string, schema *icebergo.Schema, input *arrow.Schema) (icebergo.PartitionSpec, error) {
	opts := []icebergo.PartitionOption{icebergo.WithSpecID(0)}
	for _, text := range entries {
		p, err := parsePartition(text, schema, input)
		if err != nil {
			return icebergo.PartitionSpec{}, err
		}
		name, err := icebergo.GeneratePartitionFieldName(schema, icebergo.PartitionField{SourceIDs: []int{p.column.ID}, Transform: p.transform})
		if err != nil {
			return icebergo.PartitionSpec{}, err
		}
		opts = append(opts, icebergo.AddPartitionFieldByName(p.column.Name, name, p.transform, schema, nil))
	}
	spec, err := icebergo.NewPartitionSpecOpts(opts...)
	if err != nil {
		return spec, fmt.Errorf("partition by %s: %w", strings.Join(entries, ", "), err)
	}
	return spec, nil
}
