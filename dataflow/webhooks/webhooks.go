// Package webhooks holds what the HTTP source and sink must agree on: signatures in the
// form of standardwebhooks.com.
//
// A request has an id, the time at which it was sent, and signatures: HMAC-SHA256 of
// "id.timestamp.body", as "v1," and base64, of which one must fit.
package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a request, and what is signed.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
	Signed          = "{id}.{timestamp}.{body}"
	// Version stands before each signature.
	Version = "v1,"
)

// Key reads a secret as standardwebhooks.com writes it.
func Key(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("expected a secret as standardwebhooks.com writes it: whsec_ and base64")
	}
	return key, nil
}

// Sum is the HMAC of parts, one behind the other.
func Sum(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// Sign sets the headers of a request with this id and body that is sent now, signed with
// each of keys.
func Sign(h http.Header, keys [][]byte, id string, now time.Time, body []byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		sum := Sum(key, []byte(id+"."+timestamp+"."), body)
		signatures = append(signatures, Version+base64.StdEncoding.EncodeToString(sum))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}
