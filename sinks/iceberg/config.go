package iceberg

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// LocalCatalog is the name of the embedded catalog, which exists without being
// declared.
const LocalCatalog = "local"

// The embedded catalog, relative to the working directory.
const (
	localURI       = "./frazil-data/catalog.db"
	localWarehouse = "./frazil-data/warehouse"
)

// CatalogConfig declares an Iceberg catalog.
type CatalogConfig struct {
	// Type is "sql" (a SQLite file) or "rest".
	Type string `yaml:"type,required" oneof:"sql,rest"`
	// URI is the SQLite file (a path, relative to the working directory, or
	// sqlite:///PATH), or the address of the REST catalog.
	URI string `yaml:"uri,required"`
	// Warehouse is where new tables are put: a directory or s3://BUCKET/PREFIX. A
	// REST catalog may have one of its own. Required for sql.
	Warehouse string `yaml:"warehouse"`
	// Name under which a SQL catalog files its tables. Default: the connection's
	// name.
	Name string `yaml:"name"`
	// Token is a bearer token for a REST catalog.
	Token component.Secret `yaml:"token"`
	// Credential is CLIENT_ID:CLIENT_SECRET for a REST catalog with OAuth2.
	Credential component.Secret `yaml:"credential"`
	// Scope asked for with the credential. Default: the catalog's own.
	Scope string `yaml:"scope"`
	// S3 is needed only where the usual AWS settings do not say it.
	S3 S3Config `yaml:"s3"`
}

// S3Config says how to reach an object store. What is left out comes from the
// usual AWS chain.
type S3Config struct {
	// Endpoint is the address of a store that is not Amazon's.
	Endpoint string `yaml:"endpoint"`
	// Region of the bucket.
	Region string `yaml:"region"`
	// AccessKey is the key's id.
	AccessKey component.Secret `yaml:"access_key"`
	// SecretKey belongs to AccessKey.
	SecretKey component.Secret `yaml:"secret_key"`
	// PathStyle puts the bucket into the path instead of the host name. Default:
	// true where an endpoint is set.
	PathStyle *bool `yaml:"path_style"`
}

// Config is one table that rows are appended to.
type Config struct {
	// Catalog is the name of a connection. Default: local, the embedded catalog
	// (./frazil-data/catalog.db, tables under ./frazil-data/warehouse).
	Catalog string `yaml:"catalog"`
	// Table is the table's name, NAMESPACE.NAME.
	Table string `yaml:"table,required"`
	// PartitionBy lists columns and transforms for a new table: site, day(ts),
	// hour(ts), month(ts), year(ts), bucket(16, id), truncate(4, s). A table that
	// exists keeps its own. Default: not partitioned.
	PartitionBy []string `yaml:"partition_by"`
	// Create makes the table (and its namespace) on first use. false: a missing
	// table is an error. Default: true.
	Create bool `yaml:"create"`
	// FileSize at which a file is closed and the next one begun; files are also
	// closed at each checkpoint. Default: 128MiB.
	FileSize component.Bytes `yaml:"file_size"`
	// FormatVersion of a new table, 2 or 3. Default: 2.
	FormatVersion int `yaml:"format_version"`
	// Compression of Parquet pages: zstd, snappy, gzip or none. Default: zstd.
	Compression string `yaml:"compression" oneof:"zstd,snappy,gzip,none"`
	// Properties of a new table.
	Properties map[string]string `yaml:"properties"`
}

// defaultConfig holds the defaults named in Config.
func defaultConfig() Config {
	return Config{Catalog: LocalCatalog, Create: true, FileSize: 128 << 20, FormatVersion: 2, Compression: "zstd"}
}

func init() {
	component.RegisterConnection(component.Connection[CatalogConfig]{
		Name:    "iceberg_catalog",
		Summary: "Where Iceberg tables are known: a SQLite file or a REST catalog.",
		Doc: "The catalog \"local\" exists without being declared: a SQLite file at ./frazil-data/catalog.db with its " +
			"tables under ./frazil-data/warehouse.",
		Default: func() CatalogConfig { return CatalogConfig{} },
		Check:   checkCatalog,
	})
	component.RegisterSink(component.Sink[Config]{
		Name:    "iceberg",
		Summary: "Appends rows to an Apache Iceberg table, exactly once.",
		Doc: "Rows are written into Parquet files and become visible at each checkpoint, in one commit together with the " +
			"source positions they cover, so that neither a crash nor a restored old state directory loses or doubles a row. " +
			"Other programs may write the same table. Snapshots beyond the last 100 are expired every 50 commits; tags and " +
			"branches stay.\n\n" +
			"A table that exists is matched by column name; a column that is missing or does not fit stops the pipeline at " +
			"the start. Rows with a null in a required column leave by bad.\n\n" +
			"Memory is bounded: files of partitions are closed early when there are too many of them. A shuffle by partition " +
			"is not done, so partition by columns with few values per checkpoint.",
		Default: defaultConfig,
		Plan:    plan,
		NewWriter: func(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Writer, error) {
			return NewWriter(ctx, env, in, cfg)
		},
		NewCommitter: func(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Committer, error) {
			return NewCommitter(ctx, env, in, cfg)
		},
	})
}
