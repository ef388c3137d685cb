package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"frazil/dataflow"
	"frazil/dataflow/component"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	icebergsql "github.com/apache/iceberg-go/catalog/sql"
	icebergio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // s3:// warehouses
	_ "modernc.org/sqlite"                         // the driver "sqlite"
)

// catalogOf returns the config of a connection; name "local" is the embedded
// catalog unless a connection is called so.
func catalogOf(env component.PlanEnv, name string) (CatalogConfig, error) {
	if env.Resolve != nil {
		if kind, cfg, ok := env.Resolve(name); ok {
			if kind != "iceberg_catalog" {
				return CatalogConfig{}, fmt.Errorf("connection %q is a %s, expected an iceberg_catalog", name, kind)
			}
			c, ok := cfg.(*CatalogConfig)
			if !ok {
				return CatalogConfig{}, fmt.Errorf("connection %q has an unexpected config %T", name, cfg)
			}
			out := *c
			if out.Name == "" {
				out.Name = name
			}
			return out, nil
		}
	}
	if name == LocalCatalog {
		return CatalogConfig{Type: "sql", URI: localURI, Warehouse: localWarehouse, Name: LocalCatalog}, nil
	}
	known := append([]string{LocalCatalog}, env.Connections...)
	return CatalogConfig{}, fmt.Errorf("unknown connection %q; known: %s%s", name, component.Names(known), component.DidYouMean(name, known))
}

// checkCatalog checks a connection without connecting.
func checkCatalog(_ component.PlanEnv, cfg CatalogConfig) error {
	var bad component.Problems
	add := func(path, msg string) { bad = append(bad, component.Problem{Path: path, Msg: msg}) }
	switch cfg.Type {
	case "sql":
		if scheme, _, ok := strings.Cut(cfg.URI, "://"); ok && scheme != "sqlite" {
			add("uri", fmt.Sprintf("%q: expected the path of a SQLite file or sqlite:///PATH", cfg.URI))
		}
		if cfg.Warehouse == "" {
			add("warehouse", "a sql catalog needs a warehouse: a directory or s3://BUCKET/PREFIX")
		}
	case "rest":
		if u, err := url.Parse(cfg.URI); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			add("uri", fmt.Sprintf("%q: expected http://HOST or https://HOST", cfg.URI))
		}
	default:
		add("type", fmt.Sprintf("unknown type %q: expected sql or rest", cfg.Type))
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

// lake is an open catalog. The sinks of a process that name the same one share
// it.
type lake struct {
	catalog.Catalog
	key   string
	close func() error
	refs  int // guarded by lakes.mu
	s3    icebergo.Properties
	patience
}

var lakes = struct {
	mu   sync.Mutex
	open map[string]*lake
}{open: map[string]*lake{}}

// openLake opens the catalog, or returns the one that is open. Each call needs
// one release.
func openLake(ctx context.Context, cfg CatalogConfig) (*lake, error) {
	key := lakeKey(cfg)
	lakes.mu.Lock()
	defer lakes.mu.Unlock()
	l := lakes.open[key]
	if l == nil {
		var err error
		if l, err = connect(ctx, cfg); err != nil {
			return nil, fmt.Errorf("open catalog %s: %w", cfg.URI, classifyAccess(err))
		}
		l.key = key
		lakes.open[key] = l
	}
	l.refs++
	return l, nil
}

// lakeKey tells catalogs apart. Relative paths count from the directory of now.
func lakeKey(cfg CatalogConfig) string {
	wd, _ := os.Getwd()
	s3 := cfg.S3
	path := ""
	if s3.PathStyle != nil {
		path = strconv.FormatBool(*s3.PathStyle)
	}
	return strings.Join([]string{wd, cfg.Type, cfg.URI, cfg.Warehouse, cfg.Name, cfg.Token.Reveal(), cfg.Credential.Reveal(), cfg.Scope,
		s3.Endpoint, s3.Region, s3.AccessKey.Reveal(), s3.SecretKey.Reveal(), path}, "\x00")
}

// release gives up one use; the last one closes the catalog.
func (l *lake) release() error {
	lakes.mu.Lock()
	defer lakes.mu.Unlock()
	if l.refs--; l.refs > 0 {
		return nil
	}
	delete(lakes.open, l.key)
	return l.close()
}

func connect(ctx context.Context, cfg CatalogConfig) (*lake, error) {
	if cfg.Type == "rest" {
		return connectREST(ctx, cfg)
	}
	return connectSQL(cfg)
}

func connectREST(ctx context.Context, cfg CatalogConfig) (*lake, error) {
	opts := []rest.Option{rest.WithAdditionalProps(s3Props(cfg.S3)), rest.WithTransportFactory(newLoginTransport)}
	if cfg.Warehouse != "" {
		opts = append(opts, rest.WithWarehouseLocation(cfg.Warehouse))
	}
	if cfg.Token != "" {
		opts = append(opts, rest.WithOAuthToken(cfg.Token.Reveal()))
	}
	if cfg.Credential != "" {
		opts = append(opts, rest.WithCredential(cfg.Credential.Reveal()))
	}
	if cfg.Scope != "" {
		opts = append(opts, rest.WithScope(cfg.Scope))
	}
	c, err := rest.NewCatalog(ctx, cfg.Name, cfg.URI, opts...)
	if err != nil {
		return nil, err
	}
	return &lake{Catalog: c, close: c.Close, s3: s3Props(cfg.S3)}, nil
}

// connectSQL opens a SQLite catalog, making its folder and the warehouse.
// Write-ahead logging lets readers go on beside a commit, and a busy writer is
// waited for, so that several sinks and processes share the file.
func connectSQL(cfg CatalogConfig) (*lake, error) {
	path, err := filepath.Abs(strings.TrimPrefix(cfg.URI, "sqlite://"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	warehouse := cfg.Warehouse
	if local, ok := localPath(warehouse); ok {
		abs, err := filepath.Abs(local)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return nil, err
		}
		warehouse = "file://" + abs
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	props := s3Props(cfg.S3)
	props["warehouse"] = warehouse
	props[icebergsql.SchemaVersionKey] = icebergsql.SchemaVersionV1
	c, err := icebergsql.NewCatalog(cfg.Name, db, icebergsql.SQLite, props)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &lake{Catalog: c, s3: s3Props(cfg.S3), close: func() error { return errors.Join(c.Close(), db.Close()) }}, nil
}

// localPath says whether location is on this machine's disk, and where.
func localPath(location string) (string, bool) {
	if p, ok := strings.CutPrefix(location, "file://"); ok {
		return p, true
	}
	return location, !strings.Contains(location, "://")
}

func s3Props(cfg S3Config) icebergo.Properties {
	props := icebergo.Properties{}
	set := func(key, v string) {
		if v != "" {
			props[key] = v
		}
	}
	set(icebergio.S3EndpointURL, cfg.Endpoint)
	set(icebergio.S3Region, cfg.Region)
	set(icebergio.S3AccessKeyID, cfg.AccessKey.Reveal())
	set(icebergio.S3SecretAccessKey, cfg.SecretKey.Reveal())
	if cfg.PathStyle != nil {
		props[icebergio.S3ForceVirtualAddressing] = strconv.FormatBool(!*cfg.PathStyle)
	}
	return props
}

// classifyAccess marks refusals of access as permanent.
func classifyAccess(err error) error {
	if errors.Is(err, rest.ErrForbidden) || errors.Is(err, rest.ErrUnauthorized) || errors.Is(err, rest.ErrAuthorizationExpired) || loginRefused(err) || errors.Is(err, os.ErrPermission) {
		return dataflow.Permanent(err)
	}
	return err
}
