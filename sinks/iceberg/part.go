package iceberg

import (
	"encoding/json"
	"fmt"

	"frazil/dataflow"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/codec"
	"github.com/apache/iceberg-go/table"
)

// partVersion is the version of partDoc, which is kept in manifests.
const partVersion = 1

// partDoc is what Part.Data holds: everything a commit needs, also in another
// process.
type partDoc struct {
	Version int `json:"v"`
	// Table is the UUID of the table that the files were written for.
	Table string `json:"table"`
	// Format, Schema and Spec are what the files' descriptions were encoded with.
	Format int `json:"format"`
	Schema int `json:"schema"`
	Spec   int `json:"spec"`
	// Files in the order in which they were finished.
	Files []partFile `json:"files"`
}

type partFile struct {
	Path  string `json:"path"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	// Entry is the file's manifest entry, see codec.EncodeDataFile.
	Entry []byte `json:"entry"`
}

func encodePart(l *layout, files []icebergo.DataFile) (dataflow.Part, error) {
	doc := partDoc{Version: partVersion, Table: l.table, Format: l.format, Schema: l.schema.ID, Spec: l.spec.ID()}
	var rows, bytes int64
	for _, f := range files {
		entry, err := codec.EncodeDataFile(f, l.spec, l.schema, l.format)
		if err != nil {
			return dataflow.Part{}, fmt.Errorf("encode data file %s: %w", f.FilePath(), err)
		}
		doc.Files = append(doc.Files, partFile{Path: f.FilePath(), Rows: f.Count(), Bytes: f.FileSizeBytes(), Entry: entry})
		rows += f.Count()
		bytes += f.FileSizeBytes()
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return dataflow.Part{}, fmt.Errorf("encode part: %w", err)
	}
	return dataflow.Part{Rows: rows, Bytes: bytes, Data: data}, nil
}

func decodeParts(parts []dataflow.Part) ([]partDoc, error) {
	out := make([]partDoc, 0, len(parts))
	for _, p := range parts {
		if p.Rows == 0 && len(p.Data) == 0 {
			continue
		}
		var doc partDoc
		if err := json.Unmarshal(p.Data, &doc); err != nil {
			return nil, dataflow.Permanentf("read staged part: %w", err)
		}
		if doc.Version != partVersion {
			return nil, dataflow.Permanentf("a part that is staged in the state has version %d, this program knows versions up to %d: a newer version of the program has staged it: use that version until it is committed", doc.Version, partVersion)
		}
		out = append(out, doc)
	}
	return out, nil
}

// files decodes the descriptions against the table, whose current schema and
// spec may be others by now.
func (d partDoc) files(meta table.Metadata) ([]icebergo.DataFile, error) {
	var schema *icebergo.Schema
	for _, s := range meta.Schemas() {
		if s.ID == d.Schema {
			schema = s
		}
	}
	spec := meta.PartitionSpecByID(d.Spec)
	if schema == nil || spec == nil {
		return nil, dataflow.Permanentf("staged files were written with schema %d and partition spec %d, which the table no longer has", d.Schema, d.Spec)
	}
	out := make([]icebergo.DataFile, len(d.Files))
	for i, f := range d.Files {
		df, err := codec.DecodeDataFile(f.Entry, *spec, schema, d.Format)
		if err != nil {
			return nil, dataflow.Permanentf("decode staged file %s: %w", f.Path, err)
		}
		out[i] = df
	}
	return out, nil
}
