package iceberg

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"frazil/dataflow"
	"frazil/dataflow/component"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// keepSnapshots is how many snapshots of a branch stay; expiry runs when there
// are expireEvery more.
const (
	keepSnapshots = 100
	expireEvery   = 50
)

// newTableProperties keep a table that is committed to often healthy.
func newTableProperties(cfg Config) icebergo.Properties {
	props := icebergo.Properties{
		table.PropertyFormatVersion:               fmt.Sprint(cfg.FormatVersion),
		table.MetadataDeleteAfterCommitEnabledKey: "true",
		table.MetadataPreviousVersionsMaxKey:      "10",
		table.ManifestMergeEnabledKey:             "true",
	}
	maps.Copy(props, cfg.Properties)
	return props
}

// loadTable loads the table anew.
func loadTable(ctx context.Context, l *lake, cfg Config) (*table.Table, error) {
	ident, err := parseTable(cfg.Table)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	t, err := l.LoadTable(ctx, ident)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", targetName(cfg), classifyAccess(err))
	}
	return t, nil
}

func missing(err error) bool {
	return errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace)
}

// ensureTable loads the table, making it first where it is missing and may be
// made. Several callers may race.
func ensureTable(ctx context.Context, l *lake, in component.SinkIn, cfg Config) (*table.Table, error) {
	t, err := loadTable(ctx, l, cfg)
	if err == nil || !missing(err) {
		return t, err
	}
	if !cfg.Create {
		return nil, dataflow.Permanentf("%w; make it, or let this sink make it with create: true", err)
	}
	schema, err := newSchema(dataflow.UserFields(in.Input.Schema))
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	spec, err := newSpec(cfg.PartitionBy, schema, in.Input.Schema)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	ident, _ := parseTable(cfg.Table)
	if err := l.CreateNamespace(ctx, ident[:len(ident)-1], nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		// Another sink may have made it under our feet: creating the table tells.
		if ok, existsErr := l.CheckNamespaceExists(ctx, ident[:len(ident)-1]); existsErr != nil || !ok {
			return nil, fmt.Errorf("create namespace of %s: %w", targetName(cfg), classifyAccess(err))
		}
	}
	t, err = l.CreateTable(ctx, ident, schema, catalog.WithPartitionSpec(&spec), catalog.WithProperties(newTableProperties(cfg)))
	if err != nil {
		if errors.Is(err, catalog.ErrTableAlreadyExists) {
			return loadTable(ctx, l, cfg)
		}
		return nil, fmt.Errorf("create table %s: %w", targetName(cfg), classifyAccess(err))
	}
	return t, nil
}
