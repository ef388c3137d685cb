package http

import (
	"encoding/json"
	nethttp "net/http"
	"strconv"
	"time"

	"frazil/dataflow/ingest"
)

// problem is an answer that refuses a request, as RFC 9457 writes it.
type problem struct {
	// Type is urn:frazil:http: and Reason; it is set when it is written.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Reason is a stable code.
	Reason string `json:"reason"`
	// Detail says what, where, expected, got, and what to do.
	Detail string `json:"detail"`
	// Rejected lists records that are the reason.
	Rejected []ingest.Rejection `json:"rejected,omitempty"`

	retryAfter time.Duration
	allow      string // methods, for 405
	accept     string // content encodings, for 415
}

// write sends p. What is not read of the body stays so.
func (p *problem) write(w nethttp.ResponseWriter) {
	p.Type, p.Title = "urn:frazil:http:"+p.Reason, nethttp.StatusText(p.Status)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.Status == nethttp.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.accept != "" {
		h.Set("Accept-Encoding", p.accept)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // The client is gone.
}

// appendResult writes the body of an answer that accepts.
func appendResult(out []byte, res ingest.Result) []byte {
	out = append(out, `{"accepted":`...)
	out = strconv.AppendInt(out, int64(res.Accepted), 10)
	out = append(out, `,"rejected":[`...)
	for i, r := range res.Rejected {
		if i > 0 {
			out = append(out, ',')
		}
		b, err := json.Marshal(r)
		if err != nil {
			b = []byte("{}") // It has no value that could fail.
		}
		out = append(out, b...)
	}
	out = append(out, ']')
	if res.Accepted > 0 {
		out = append(out, `,"first_sequence":`...)
		out = strconv.AppendUint(out, res.First, 10)
		out = append(out, `,"last_sequence":`...)
		out = strconv.AppendUint(out, res.Last, 10)
	}
	if res.Forgotten {
		out = append(out, `,"already_accepted":true`...)
	}
	return append(out, "}\n"...)
}
