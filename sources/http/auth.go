package http

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	nethttp "net/http"
	"net/textproto"
	"strings"
	"time"
)

// auth decides who may post to one stream.
type auth struct {
	tokens  []knownToken
	certs   []Certificate
	signers []*signer
}

// knownToken is compared by its hash, which tells nothing of the token by the time
// that it takes.
type knownToken struct {
	name string
	sum  [sha256.Size]byte
}

func newAuth(cfg *Auth) (*auth, error) {
	if cfg == nil {
		return nil, nil
	}
	a := &auth{certs: cfg.Certificates}
	for _, t := range cfg.Tokens {
		a.tokens = append(a.tokens, knownToken{t.Name, sha256.Sum256([]byte(t.Token.Reveal()))})
	}
	for _, c := range cfg.Signatures {
		s, err := newSigner(c)
		if err != nil {
			return nil, err
		}
		a.signers = append(a.signers, s)
	}
	return a, nil
}

// bearer returns the token of r, "" without one.
func bearer(r *nethttp.Request) string {
	h := r.Header.Get("Authorization")
	if len(h) > 7 && strings.EqualFold(h[:7], "bearer ") {
		return strings.TrimSpace(h[7:])
	}
	return ""
}

// token returns whose token it is. It takes as long whichever fits.
func (a *auth) token(token string) (name string, ok bool) {
	if token == "" {
		return "", false
	}
	sum := sha256.Sum256([]byte(token))
	for i := range a.tokens {
		if subtle.ConstantTimeCompare(sum[:], a.tokens[i].sum[:]) == 1 {
			name, ok = a.tokens[i].name, true
		}
	}
	return name, ok
}

// certificate returns the name of a client certificate that may post. The
// connection has verified it.
func (a *auth) certificate(r *nethttp.Request) (name string, ok bool) {
	c := clientCertificate(r)
	if c == nil {
		return "", false
	}
	for _, want := range a.certs {
		switch {
		case want.CommonName != "":
			if fits(want.CommonName, c.Subject.CommonName) {
				return c.Subject.CommonName, true
			}
		case want.DNS != "":
			for _, n := range c.DNSNames {
				if fits(want.DNS, n) {
					return n, true
				}
			}
		case want.URI != "":
			for _, u := range c.URIs {
				if fits(want.URI, u.String()) {
					return u.String(), true
				}
			}
		}
	}
	return "", false
}

func clientCertificate(r *nethttp.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// fits says whether name is pattern, in which one * stands for any text.
func fits(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name && name != ""
	}
	return name != "" && len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// identify looks for a token or a certificate. wait: a signature may still come
// with the body.
func (a *auth) identify(r *nethttp.Request) (name string, wait bool, p *problem) {
	if a == nil {
		return "", false, nil
	}
	token := bearer(r)
	if name, ok := a.token(token); ok {
		return name, false, nil
	}
	if name, ok := a.certificate(r); ok {
		return name, false, nil
	}
	for _, s := range a.signers {
		if r.Header.Get(s.header) != "" {
			return "", true, nil
		}
	}
	if c := clientCertificate(r); c != nil && token == "" && len(a.certs) > 0 {
		return "", false, &problem{Status: 403, Reason: "forbidden", Detail: "the client certificate is valid and none of its names may post to this stream: see auth.certificates"}
	}
	return "", false, &problem{Status: 401, Reason: "unauthorized", Detail: "expected " + a.expected() + ", got " + given(r, token)}
}

// expected says what may be shown.
func (a *auth) expected() string {
	var out []string
	if len(a.tokens) > 0 {
		out = append(out, "the header Authorization: Bearer TOKEN")
	}
	if len(a.certs) > 0 {
		out = append(out, "a client certificate")
	}
	for _, s := range a.signers {
		out = append(out, "a signature in the header "+s.header)
	}
	return strings.Join(out, ", or ")
}

func given(r *nethttp.Request, token string) string {
	switch {
	case token != "":
		return "a token that is not known"
	case r.Header.Get("Authorization") != "":
		return "a header Authorization of another kind"
	}
	return "none"
}

// verify checks the signatures of a body as it was sent. key is the delivery's id,
// "" without one.
func (a *auth) verify(r *nethttp.Request, body []byte, now time.Time) (name, key string, p *problem) {
	detail := ""
	for _, s := range a.signers {
		if r.Header.Get(s.header) == "" {
			continue
		}
		why := s.verify(r.Header, body, now)
		if why == "" {
			return s.name, s.id(r.Header), nil
		}
		detail = "the signature in " + s.header + " is not valid: " + why
	}
	return "", "", &problem{Status: 401, Reason: "bad_signature", Detail: detail}
}

// signs says whether a header holds a signature.
func (ep *endpoint) signs(header string) bool {
	if ep.auth == nil {
		return false
	}
	for _, s := range ep.auth.signers {
		if s.header == textproto.CanonicalMIMEHeaderKey(header) {
			return true
		}
	}
	return false
}
