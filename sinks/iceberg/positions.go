package iceberg

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"frazil/dataflow"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// Names in the table that are a format.
const (
	// propPositions + PIPELINE.SINK is the table property with the positions.
	propPositions = "frazil.positions."
	// Snapshot summary.
	sumSink      = "frazil.sink"             // PIPELINE.SINK whose commit it is
	sumEpoch     = "frazil.epoch"            // information only
	sumWatermark = "frazil.watermark"        // of the sink's input, microseconds
	sumLate      = "frazil.late"             // rows that left by late ports so far
	sumDigest    = "frazil.positions-digest" // of the property set with it
	sumClock     = "frazil.clock"            // clock decisions since the commit before, JSON
	sumClaim     = "frazil.claim"            // token; the snapshot is a claim and adds no rows
)

// Positions longer than this are compressed.
const (
	compressOver     = 16 << 10
	compressedMarker = "zstd:"
)

// positionsDoc is the value of the property.
type positionsDoc struct {
	Version int                `json:"v"`
	Sources dataflow.Positions `json:"sources"`
	// Start is where the splits were read from at the pipeline's first start.
	Start      dataflow.Positions       `json:"start,omitempty"`
	Plan       string                   `json:"plan"`
	Watermarks map[string]dataflow.Time `json:"watermarks,omitempty"`
	// Clocks counts the clock decisions in all commits so far, so that lost ones
	// are noticed.
	Clocks int64 `json:"clocks,omitempty"`
	// Claim is the process that may commit, where a pipeline has several targets.
	Claim *dataflow.Claim `json:"claim,omitempty"`
	// Commits are the IDs of the last commits that have one.
	Commits []string `json:"commits,omitempty"`
}

func (d positionsDoc) claim() dataflow.Claim {
	if d.Claim == nil {
		return dataflow.Claim{}
	}
	return *d.Claim
}

func encodePositions(d positionsDoc) (string, error) {
	d.Version = 1
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode positions: %w", err)
	}
	if len(text) <= compressOver {
		return string(text), nil
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return "", fmt.Errorf("compress positions: %w", err)
	}
	defer enc.Close()
	return compressedMarker + base64.StdEncoding.EncodeToString(enc.EncodeAll(text, nil)), nil
}

func decodePositions(text string) (positionsDoc, error) {
	var d positionsDoc
	raw := []byte(text)
	if packed, ok := strings.CutPrefix(text, compressedMarker); ok {
		b, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			return d, fmt.Errorf("decode positions: %w", err)
		}
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return d, fmt.Errorf("decompress positions: %w", err)
		}
		defer dec.Close()
		if raw, err = dec.DecodeAll(b, nil); err != nil {
			return d, fmt.Errorf("decompress positions: %w", err)
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, fmt.Errorf("read positions: %w", err)
	}
	if d.Version != 1 {
		return d, fmt.Errorf("the positions have version %d, this program knows versions up to 1: a newer version of the program has committed to the table: use that version", d.Version)
	}
	return d, nil
}

// held reads what the table holds for one sink; found is false if nothing.
func held(meta table.Metadata, sink string) (d positionsDoc, found bool, err error) {
	text, ok := meta.Properties()[propPositions+sink]
	if !ok {
		return positionsDoc{}, false, nil
	}
	if d, err = decodePositions(text); err != nil {
		return d, false, dataflow.Permanentf("table at %s: property %s%s: %w", meta.Location(), propPositions, sink, err)
	}
	return d, true, nil
}

func digest(text string) string { return strconv.FormatUint(xxh3.HashString(text), 16) }

// summary is what a commit writes into its snapshot.
func summary(sink string, c dataflow.Commit, positions string) (icebergo.Properties, error) {
	p := icebergo.Properties{
		sumSink:      sink,
		sumEpoch:     strconv.FormatUint(uint64(c.Epoch), 10),
		sumWatermark: strconv.FormatInt(int64(c.Watermark), 10),
		sumLate:      strconv.FormatInt(c.Late, 10),
		sumDigest:    digest(positions),
	}
	if len(c.Clock) > 0 {
		text, err := json.Marshal(c.Clock)
		if err != nil {
			return nil, fmt.Errorf("encode clock decisions: %w", err)
		}
		p[sumClock] = string(text)
	}
	return p, nil
}

// history walks main's snapshots from the newest and collects the sink's clock
// decisions, oldest first, and the digest recorded with its newest commit (""
// if no snapshot of it is left).
func history(meta table.Metadata, sink string) (clock []dataflow.ClockDecision, newest string, err error) {
	var chunks [][]dataflow.ClockDecision
	for s := meta.SnapshotByName(table.MainBranch); s != nil; {
		if s.Summary != nil && s.Summary.Properties[sumSink] == sink {
			if newest == "" {
				newest = s.Summary.Properties[sumDigest]
			}
			if text := s.Summary.Properties[sumClock]; text != "" {
				var chunk []dataflow.ClockDecision
				if err := json.Unmarshal([]byte(text), &chunk); err != nil {
					return nil, "", dataflow.Permanentf("snapshot %d: read clock decisions: %w", s.SnapshotID, err)
				}
				chunks = append(chunks, chunk)
			}
		}
		if s.ParentSnapshotID == nil {
			break
		}
		s = meta.SnapshotByID(*s.ParentSnapshotID)
	}
	for i := len(chunks) - 1; i >= 0; i-- {
		clock = append(clock, chunks[i]...)
	}
	return clock, newest, nil
}
