package http

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	nethttp "net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow/webhooks"
)

// signer checks the signatures of one sender.
type signer struct {
	name            string
	secrets         [][]byte
	header          string
	prefix          string
	decode          func(string) ([]byte, error)
	signed          []string // text, {body}, {timestamp} and {id}, in turn
	timestampHeader string
	idHeader        string
	tolerance       time.Duration
	// split takes the header apart: the time, if it stands there, and signatures.
	split func(h string) (timestamp string, signatures []string)
}

func newSigner(c Signature) (*signer, error) {
	s := &signer{name: c.Name, tolerance: c.Tolerance.D(), decode: hex.DecodeString}
	s.split = func(h string) (string, []string) { return "", []string{h} }
	for _, x := range c.Secrets {
		s.secrets = append(s.secrets, []byte(x.Reveal()))
	}
	switch c.Scheme {
	case schemeGitHub:
		s.header, s.prefix, s.signed, s.idHeader = "X-Hub-Signature-256", "sha256=", parts("{body}"), "X-GitHub-Delivery"
	case schemeStripe:
		s.header, s.signed, s.split = "Stripe-Signature", parts("{timestamp}.{body}"), splitStripe
	case schemeStandard:
		s.header, s.signed, s.split = webhooks.HeaderSignature, parts(webhooks.Signed), splitStandard
		s.timestampHeader, s.idHeader, s.decode = webhooks.HeaderTimestamp, webhooks.HeaderID, base64.StdEncoding.DecodeString
		for i, x := range c.Secrets {
			key, err := webhooks.Key(x.Reveal())
			if err != nil {
				return nil, err
			}
			s.secrets[i] = key
		}
	default:
		s.header, s.prefix, s.signed, s.timestampHeader = c.Header, c.Prefix, parts(c.Signed), c.TimestampHeader
		if c.Encoding == encodingBase64 {
			s.decode = base64.StdEncoding.DecodeString
		}
	}
	if c.IDHeader != "" {
		s.idHeader = c.IDHeader
	}
	s.header = textproto.CanonicalMIMEHeaderKey(s.header)
	return s, nil
}

// splitStripe reads t=...,v1=...,v1=...
func splitStripe(h string) (timestamp string, signatures []string) {
	for part := range strings.SplitSeq(h, ",") {
		switch k, v, _ := strings.Cut(strings.TrimSpace(part), "="); k {
		case "t":
			timestamp = v
		case "v1":
			signatures = append(signatures, v)
		}
	}
	return timestamp, signatures
}

// splitStandard reads v1,... v1,...
func splitStandard(h string) (timestamp string, signatures []string) {
	for part := range strings.FieldsSeq(h) {
		if v, ok := strings.CutPrefix(part, webhooks.Version); ok {
			signatures = append(signatures, v)
		}
	}
	return "", signatures
}

// parts takes a template apart.
func parts(template string) []string {
	var out []string
	for template != "" {
		i := -1
		name := ""
		for _, n := range []string{"{body}", "{timestamp}", "{id}"} {
			if j := strings.Index(template, n); j >= 0 && (i < 0 || j < i) {
				i, name = j, n
			}
		}
		if i < 0 {
			return append(out, template)
		}
		if i > 0 {
			out = append(out, template[:i])
		}
		out = append(out, name)
		template = template[i+len(name):]
	}
	return out
}

func (s *signer) id(h nethttp.Header) string {
	if s.idHeader == "" {
		return ""
	}
	return h.Get(s.idHeader)
}

// verify says why a signature is not valid, "" if it is.
func (s *signer) verify(h nethttp.Header, body []byte, now time.Time) string {
	timestamp, signatures := s.split(h.Get(s.header))
	if s.timestampHeader != "" {
		timestamp = h.Get(s.timestampHeader)
	}
	if s.needs("{timestamp}") {
		sec, err := strconv.ParseInt(timestamp, 10, 64)
		if err != nil {
			return "expected its time in seconds since 1970, got " + strconv.Quote(shorten(timestamp))
		}
		if off := now.Sub(time.Unix(sec, 0)).Abs(); off > s.tolerance {
			return "its time is " + off.Round(time.Second).String() + " from now, and " + s.tolerance.String() + " is allowed (tolerance): it may be an old request that is sent again, or a clock is wrong"
		}
	}
	if s.needs("{id}") && s.id(h) == "" {
		return "the header " + s.idHeader + " is missing"
	}
	if len(signatures) > maxSignatures {
		return "there are too many"
	}
	for _, text := range signatures {
		text, ok := strings.CutPrefix(text, s.prefix)
		if !ok {
			continue
		}
		got, err := s.decode(text)
		if err != nil {
			continue
		}
		for _, secret := range s.secrets {
			if hmac.Equal(got, s.sum(secret, h, timestamp, body)) {
				return ""
			}
		}
	}
	return "it is not made of this body with a secret that is known"
}

// maxSignatures bounds the work for one request.
const maxSignatures = 8

func (s *signer) needs(part string) bool {
	for _, p := range s.signed {
		if p == part {
			return true
		}
	}
	return false
}

func (s *signer) sum(secret []byte, h nethttp.Header, timestamp string, body []byte) []byte {
	all := make([][]byte, 0, len(s.signed))
	for _, p := range s.signed {
		switch p {
		case "{body}":
			all = append(all, body)
		case "{timestamp}":
			all = append(all, []byte(timestamp))
		case "{id}":
			all = append(all, []byte(s.id(h)))
		default:
			all = append(all, []byte(p))
		}
	}
	return webhooks.Sum(secret, all...)
}
