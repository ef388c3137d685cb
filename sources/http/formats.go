package http

import (
	"fmt"
	"mime"
	nethttp "net/http"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/ingest"

	"github.com/cespare/xxhash/v2"
)

// format is what a body holds.
type format uint8

const (
	formatJSON format = iota
	formatLines
	formatCSV
	formatArrow
	formatEvent
	formatEvents
	formatBinaryEvent
	// formatOne is one record for a decode block of another kind than JSON.
	formatOne
)

// Media types.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeCSV    = "text/csv"
	typeArrow  = "application/vnd.apache.arrow.stream"
	typeEvent  = "application/cloudevents+json"
	typeEvents = "application/cloudevents-batch+json"
	typeBytes  = "application/octet-stream"
)

var formats = map[string]format{
	typeJSON: formatJSON, typeNDJSON: formatLines, "application/ndjson": formatLines, "application/jsonl": formatLines, "application/x-jsonlines": formatLines,
	typeCSV: formatCSV, typeArrow: formatArrow, typeEvent: formatEvent, typeEvents: formatEvents,
}

// types lists the media types that the stream takes, for people.
func (ep *endpoint) types() []string {
	switch {
	case ep.json == nil:
		return []string{typeBytes, typeEvent, typeEvents}
	case ep.arrow == nil:
		return []string{typeJSON, typeNDJSON, typeCSV, typeEvent, typeEvents}
	}
	return []string{typeJSON, typeNDJSON, typeCSV, typeArrow, typeEvent, typeEvents}
}

// format tells by the headers what a body holds.
func (ep *endpoint) format(h nethttp.Header) (format, *problem) {
	text := h.Get("Content-Type")
	if h.Get("Ce-Specversion") != "" && !strings.HasPrefix(strings.ToLower(text), "application/cloudevents") {
		return formatBinaryEvent, nil
	}
	f, ok := formats[text] // the usual case, without parsing
	if !ok {
		t, params, err := mime.ParseMediaType(text)
		if text == "" || err != nil {
			return 0, ep.unsupported(text)
		}
		if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") && !strings.EqualFold(c, "us-ascii") {
			return 0, &problem{Status: 415, Reason: "unsupported_type", Detail: "Content-Type: expected text in UTF-8, got charset=" + quoted(c)}
		}
		if c := params["header"]; t == typeCSV && c == "absent" {
			return 0, &problem{Status: 415, Reason: "unsupported_type", Detail: "Content-Type: expected CSV whose first record names the columns, got header=absent"}
		}
		if f, ok = formats[t]; !ok && t == typeBytes && ep.json == nil {
			return formatOne, nil
		}
		text = t
	}
	switch {
	case !ok, ep.json == nil && f != formatEvent && f != formatEvents, f == formatArrow && ep.arrow == nil:
		return 0, ep.unsupported(text)
	}
	return f, nil
}

func (ep *endpoint) unsupported(got string) *problem {
	detail := "Content-Type: expected one of " + strings.Join(ep.types(), ", ") + "; got "
	switch {
	case got == "":
		detail += "none"
	case strings.HasPrefix(got, "application/x-www-form-urlencoded"):
		detail += got + ", which curl sends unless told otherwise: write -H 'Content-Type: " + ep.types()[min(1, len(ep.types())-1)] + "' and --data-binary"
	default:
		detail += quoted(got)
	}
	return &problem{Status: 415, Reason: "unsupported_type", Detail: detail}
}

// Headers that name a request.
const (
	headerKey      = "Idempotency-Key"
	headerProducer = "Frazil-Producer"
	headerSequence = "Frazil-Sequence"
)

// maxKey bounds keys and names of producers.
const maxKey = 255

// identity reads the headers by which a retry is recognised.
func (r *request) identity() *problem {
	h := r.http.Header
	key, producer, sequence := h.Get(headerKey), h.Get(headerProducer), h.Get(headerSequence)
	bad := func(format string, args ...any) *problem {
		return &problem{Status: 400, Reason: "bad_header", Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(h.Values(headerKey)) > 1:
		return bad("%s: expected one, got %d", headerKey, len(h.Values(headerKey)))
	case key == "" && len(h.Values(headerKey)) == 1:
		return bad("%s: expected 1 to %d characters, got none", headerKey, maxKey)
	case key != "" && (producer != "" || sequence != ""):
		return bad("expected %s, or %s with %s, got both", headerKey, headerProducer, headerSequence)
	case (producer == "") != (sequence == ""):
		return bad("%s and %s belong together", headerProducer, headerSequence)
	case len(key) > maxKey || len(producer) > maxKey:
		return bad("%s, %s: expected at most %d characters", headerKey, headerProducer, maxKey)
	case producer != "":
		n, err := strconv.ParseUint(sequence, 10, 63)
		if err != nil || n == 0 {
			return bad("%s: expected a number from 1 on, got %s", headerSequence, quoted(sequence))
		}
		r.out.Producer, r.out.Sequence = producer, n
	case key != "":
		// As the draft for the header has it, or without quotes, as most send it.
		if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
			key = key[1 : len(key)-1]
		}
		if key == "" {
			return bad("%s: expected 1 to %d characters, got none", headerKey, maxKey)
		}
		r.out.Key = key
	}
	return nil
}

// own makes keys those of who posts: one cannot get another's answer.
func (r *request) own() {
	if r.principal == "" {
		return
	}
	if r.out.Key != "" {
		r.out.Key = r.principal + "\x00" + r.out.Key
	}
	if r.out.Producer != "" {
		r.out.Producer = r.principal + "\x00" + r.out.Producer
	}
}

// fill takes the records out of a body.
func (r *request) fill(f format, body []byte) *problem {
	if r.out.Key != "" || r.out.Producer != "" {
		d := xxhash.New()
		_, _ = d.WriteString(r.http.Header.Get("Content-Type")) // It cannot fail.
		_, _ = d.Write(body)
		r.out.Digest = d.Sum64()
	}
	max := r.ep.cfg.Limits.Records
	if len(body) == 0 && f != formatBinaryEvent {
		return &problem{Status: 400, Reason: "empty", Detail: "the body is empty: expected records"}
	}
	var bad *dataflow.Bad
	switch f {
	case formatJSON:
		r.out.Records, bad = codec.Elements(body, r.ep.json.Depth, max)
	case formatLines:
		var ok bool
		if r.out.Records, ok = codec.Lines(body, max); !ok {
			return tooLarge("the body holds more than %d records (limits.records): send fewer at once", max)
		}
		if len(r.out.Records) == 0 {
			return &problem{Status: 400, Reason: "empty", Detail: "the body holds no record, only white space"}
		}
	case formatCSV:
		bad = r.fillCSV(body, max)
	case formatArrow:
		bad = r.fillArrow(body, max)
	case formatOne:
		r.out.Records = [][]byte{body}
	default:
		bad = r.fillEvents(f, body, max)
	}
	if bad == nil {
		return nil
	}
	status := 400
	if bad.Reason == codec.ReasonTooLarge {
		status = 413
	}
	return &problem{Status: status, Reason: bad.Reason, Detail: "the body cannot be read, so that nothing was kept: " + bad.Detail}
}

func (r *request) fillCSV(body []byte, max int) *dataflow.Bad {
	records, bad := r.ep.csv.Records(body, max)
	for i := range records {
		if x := &records[i]; x.Bad != nil {
			r.out.Bad = append(r.out.Bad, ingest.BadRecord{Index: i, Bad: *x.Bad, Raw: x.Raw})
		} else {
			r.out.Records = append(r.out.Records, x.JSON)
		}
	}
	return bad
}

func (r *request) fillArrow(body []byte, max int) *dataflow.Bad {
	rows, bads, bad := r.ep.arrow.Rows(body, max, int64(r.ep.cfg.Limits.Decompressed)*2)
	if bad != nil {
		return bad
	}
	r.out.Batch = rows
	for _, x := range bads {
		r.out.Bad = append(r.out.Bad, ingest.BadRecord{Index: x.Index, Bad: x.Bad, Raw: x.Row})
	}
	if rows.NumRows() == 0 {
		r.out.Batch.Release()
		r.out.Batch = nil
	}
	return nil
}

func (r *request) fillEvents(f format, body []byte, max int) *dataflow.Bad {
	depth := maxEventDepth
	if r.ep.json != nil {
		depth = r.ep.json.Depth
	}
	if f == formatBinaryEvent {
		e, bad := codec.CloudEventFromHeaders(r.http.Header.Get("Content-Type"), func(visit func(name, value string) *dataflow.Bad) *dataflow.Bad {
			for name, values := range r.http.Header {
				for _, v := range values {
					if bad := visit(strings.ToLower(name), v); bad != nil {
						return bad
					}
				}
			}
			return nil
		}, body)
		r.event1(e, bad, body)
		return nil
	}
	docs := [][]byte{body}
	if f == formatEvents {
		var bad *dataflow.Bad
		if docs, bad = codec.Elements(body, depth+1, max); bad != nil {
			return bad
		}
	}
	for _, doc := range docs {
		e, bad := codec.ParseCloudEvent(doc, depth)
		r.event1(e, bad, doc)
	}
	return nil
}

// maxEventDepth is how deep an event may nest where no decode block says it.
const maxEventDepth = 64

// event1 adds one event.
func (r *request) event1(e codec.CloudEvent, bad *dataflow.Bad, raw []byte) {
	i := len(r.events)
	r.events = append(r.events, e)
	if bad != nil {
		r.out.Bad = append(r.out.Bad, ingest.BadRecord{Index: i, Bad: *bad, Raw: raw})
	} else {
		r.out.Records = append(r.out.Records, e.Data)
	}
}

// quoted shows what a client sent.
func quoted(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}
