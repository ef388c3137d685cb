package iceberg

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	icebergo "github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/avro/ocf"
)

// The library writes the bounds of a partition field in a manifest list as null
// where the bound is the empty text (iceberg-go 0.7.0). Readers take a missing
// bound for "all values are null" and skip the manifest: with one row of the
// partition "", a filter on any value of the column finds nothing. So manifest
// lists are put right on their way to the store.

// repairingTable is t, except that what it commits has complete bounds.
func repairingTable(t *table.Table, cat table.CatalogIO) *table.Table {
	text := textFields(t.Metadata())
	if len(text) == 0 {
		return t
	}
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), func(ctx context.Context) (icebergio.IO, error) {
		fs, err := writeFS(ctx, t)
		if err != nil {
			return nil, err
		}
		return repairingFS{fs, text}, nil
	}, cat)
}

// textFields says per partition spec which fields hold texts or bytes. Specs
// without one are left out.
func textFields(meta table.Metadata) map[int][]bool {
	out := map[int][]bool{}
	for _, spec := range meta.PartitionSpecs() {
		flags := make([]bool, spec.NumFields())
		any := false
		for i, f := range spec.Fields() {
			src, ok := topFieldByID(meta.CurrentSchema(), f.SourceID())
			if !ok {
				continue
			}
			switch f.Transform.ResultType(src.Type).(type) {
			case icebergo.StringType, icebergo.BinaryType:
				flags[i], any = true, true
			}
		}
		if any {
			out[spec.ID()] = flags
		}
	}
	return out
}

type repairingFS struct {
	icebergio.WriteFileIO
	text map[int][]bool
}

// Create returns a writer that repairs if name is a manifest list's.
func (r repairingFS) Create(name string) (icebergio.FileWriter, error) {
	if base := path.Base(name); !strings.HasPrefix(base, "snap-") || !strings.HasSuffix(base, ".avro") {
		return r.WriteFileIO.Create(name)
	}
	return &manifestList{fs: r, name: name}, nil
}

type manifestList struct {
	bytes.Buffer
	fs     repairingFS
	name   string
	closed bool
}

// Close repairs what was written and stores it.
func (m *manifestList) Close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	content, err := repairManifestList(m.Bytes(), m.fs.text)
	if err != nil {
		return fmt.Errorf("repair manifest list %s: %w", m.name, err)
	}
	w, err := m.fs.WriteFileIO.Create(m.name)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

// repairManifestList returns content with the missing bounds of empty texts, or
// content itself where none is missing.
func repairManifestList(content []byte, text map[int][]bool) ([]byte, error) {
	rd, err := ocf.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	var records []map[string]any
	changed := false
	for {
		var rec map[string]any
		if err := rd.Decode(&rec); err != nil {
			if err == io.EOF {
				break
			}
			return nil, err
		}
		changed = repairBounds(rec, text) || changed
		records = append(records, rec)
	}
	if !changed {
		return content, nil
	}
	meta := map[string][]byte{}
	for k, v := range rd.Metadata() {
		if !strings.HasPrefix(k, "avro.") {
			meta[k] = v
		}
	}
	opts := []ocf.WriterOpt{ocf.WithMetadata(meta), ocf.WithSchema(string(rd.Metadata()["avro.schema"]))}
	if string(rd.Metadata()["avro.codec"]) == "deflate" {
		opts = append(opts, ocf.WithCodec(ocf.DeflateCodec(6)))
	}
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, rd.Schema(), opts...)
	if err != nil {
		return nil, err
	}
	for _, rec := range records {
		if err := w.Encode(rec); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// repairBounds sets missing bounds of one manifest's text fields to the empty
// text. A field whose values are all null gets them too where that cannot be
// told apart: a reader then opens the manifest and finds nothing.
func repairBounds(rec map[string]any, text map[int][]bool) bool {
	spec, _ := rec["partition_spec_id"].(int32)
	summaries, _ := rec["partitions"].([]any)
	changed := false
	for i, flag := range text[int(spec)] {
		if !flag || i >= len(summaries) {
			continue
		}
		s, ok := summaries[i].(map[string]any)
		if !ok {
			continue
		}
		for _, bound := range []string{"lower_bound", "upper_bound"} {
			if s[bound] == nil {
				s[bound], changed = []byte{}, true
			}
		}
	}
	return changed
}
