package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	nethttp "net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/component"
)

func mac(secret, text string) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func TestTokens(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = &Auth{Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}}} })
	for _, h := range []string{"", "Bearer bbbbbbbbbbbbbbbb", "Bearer ", "Basic aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", "Bearer aaaaaaaaaaaaaaaaa"} {
		a := r.post(typeJSON, `{"id":1}`, "Authorization", h)
		a.expect(t, 401, "unauthorized")
		if a.Header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(a.Body, "aaaa") || strings.Contains(a.Body, "bbbb") {
			t.Error(a.Header, a.Body)
		}
	}
	r.post(typeJSON, `{"id":1}`, "Authorization", "Bearer aaaaaaaaaaaaaaaa").expect(t, 200, "")
}

// TestGitHubSignature uses the example of GitHub's documentation.
func TestGitHubSignature(t *testing.T) {
	s, err := newSigner(Signature{Name: "github", Scheme: schemeGitHub, Secrets: []component.Secret{"It's a Secret to Everybody"}, Tolerance: component.Duration(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	h := nethttp.Header{}
	h.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if why := s.verify(h, []byte("Hello, World!"), time.Now()); why != "" {
		t.Error(why)
	}
	if why := s.verify(h, []byte("Hello, World?"), time.Now()); why == "" {
		t.Error("another body fits")
	}
}

// TestStandardSignature uses the example of the Standard Webhooks specification's
// reference libraries.
func TestStandardSignature(t *testing.T) {
	s, err := newSigner(Signature{Name: "x", Scheme: schemeStandard, Secrets: []component.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Tolerance: component.Duration(5 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	h := nethttp.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,x")
	body := []byte(`{"test": 2432232314}`)
	if why := s.verify(h, body, time.Unix(1614265330, 0)); why != "" {
		t.Error(why)
	}
	if why := s.verify(h, body, time.Unix(1614265330+301, 0)); !strings.Contains(why, "5m1s from now") {
		t.Error(why)
	}
	h.Set("webhook-id", "msg_other")
	if why := s.verify(h, body, time.Unix(1614265330, 0)); why == "" {
		t.Error("another id fits")
	}
}

func TestSignaturesOverHTTP(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Auth = &Auth{Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}}, Signatures: []Signature{
			{Name: "github", Scheme: schemeGitHub, Secrets: []component.Secret{"old secret", "new secret"}, Tolerance: component.Duration(time.Minute), Encoding: encodingHex, Signed: "{body}"},
			{Name: "stripe", Scheme: schemeStripe, Secrets: []component.Secret{"whsec_stripe"}, Tolerance: component.Duration(time.Minute), Encoding: encodingHex, Signed: "{body}"},
			{Name: "slack", Scheme: schemeCustom, Secrets: []component.Secret{"slack secret"}, Tolerance: component.Duration(time.Minute), Header: "X-Slack-Signature", Prefix: "v0=", Encoding: encodingHex, Signed: "v0:{timestamp}:{body}", TimestampHeader: "X-Slack-Request-Timestamp"},
		}}
		c.Metadata = Metadata{Principal: "who", Headers: "headers"}
	})
	now := r.clock().Unix()
	body := `{"id":1}`
	github := func(body string, headers ...string) answer {
		return r.post(typeJSON, body, append(headers, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac("new secret", `{"id":1}`)), "User-Agent", "", "Accept-Encoding", "identity")...)
	}
	github(body, "X-GitHub-Delivery", "d1").expect(t, 200, "")
	if a := github(body, "X-GitHub-Delivery", "d1"); a.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("a delivery that comes again is no retry")
	}
	github(`{"id":2}`).expect(t, 401, "bad_signature")
	stripe := func(at int64) answer {
		return r.post(typeJSON, `{"id":3}`, "Stripe-Signature", fmt.Sprintf("t=%d,v1=00,v1=%x,v0=aa", at, mac("whsec_stripe", fmt.Sprintf(`%d.{"id":3}`, at))))
	}
	stripe(now).expect(t, 200, "")
	stripe(now-61).expect(t, 401, "bad_signature")
	stripe(now+61).expect(t, 401, "bad_signature")
	r.post(typeJSON, `{"id":4}`, "X-Slack-Signature", "v0="+hex.EncodeToString(mac("slack secret", fmt.Sprintf(`v0:%d:{"id":4}`, now))), "X-Slack-Request-Timestamp", strconv.FormatInt(now, 10)).expect(t, 200, "")
	r.post(typeJSON, `{"id":4}`, "X-Slack-Signature", "v0="+hex.EncodeToString(mac("slack secret", `v0::{"id":4}`))).expect(t, 401, "bad_signature")
	r.post(typeJSON, `{"id":5}`).expect(t, 401, "unauthorized")
	rows := r.rows(3)
	for i, who := range []string{"github", "stripe", "slack"} {
		if !strings.Contains(rows[i], `"who":"`+who+`"`) || strings.Contains(rows[i], "ignature") && strings.Contains(rows[i], base64.StdEncoding.EncodeToString(mac("x", "y"))) || strings.Contains(rows[i], `"key":"x-hub-signature-256"`) || strings.Contains(rows[i], `"key":"stripe-signature"`) {
			t.Error(rows[i])
		}
	}
}

// pki is an authority with certificates.
type pki struct {
	t    *testing.T
	dir  string
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newPKI(t *testing.T) *pki {
	p := &pki{t: t, dir: t.TempDir(), next: 1}
	p.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.ca = &x509.Certificate{SerialNumber: big.NewInt(p.next), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	p.write("ca.pem", "CERTIFICATE", der)
	return p
}

func (p *pki) write(name, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(p.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// issue makes NAME.pem and NAME.key.
func (p *pki) issue(name, cn string, uris ...string) tls.Certificate {
	p.next++
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c := &x509.Certificate{SerialNumber: big.NewInt(p.next), Subject: pkix.Name{CommonName: cn}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, u := range uris {
		x, _ := url.Parse(u)
		c.URIs = append(c.URIs, x)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, p.ca, &key.PublicKey, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name+".pem", "CERTIFICATE", der)
	raw, _ := x509.MarshalECPrivateKey(key)
	p.write(name+".key", "EC PRIVATE KEY", raw)
	out, err := tls.LoadX509KeyPair(filepath.Join(p.dir, name+".pem"), filepath.Join(p.dir, name+".key"))
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func TestClientCertificates(t *testing.T) {
	p := newPKI(t)
	p.issue("server", "server")
	r := newRig(t, func(c *Config) {
		c.TLS = &TLS{Cert: filepath.Join(p.dir, "server.pem"), Key: filepath.Join(p.dir, "server.key"), ClientCA: filepath.Join(p.dir, "ca.pem")}
		c.Auth = &Auth{Certificates: []Certificate{{CommonName: "device-*"}, {URI: "spiffe://plant/*"}}, Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}}}
		c.Metadata = Metadata{Principal: "who"}
	})
	pool := x509.NewCertPool()
	pool.AddCert(func() *x509.Certificate {
		raw, _ := os.ReadFile(filepath.Join(p.dir, "ca.pem"))
		b, _ := pem.Decode(raw)
		c, _ := x509.ParseCertificate(b.Bytes)
		return c
	}())
	post := func(cert *tls.Certificate, token string) (answer, string) {
		cfg := &tls.Config{RootCAs: pool}
		if cert != nil {
			cfg.Certificates = []tls.Certificate{*cert}
		}
		tr := &nethttp.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		req, _ := nethttp.NewRequest("POST", strings.Replace(r.url, "http://", "https://", 1)+"/events", strings.NewReader(`{"id":1}`))
		req.Header.Set("Content-Type", typeJSON)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := (&nethttp.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return answer{Status: resp.StatusCode}, resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	device, service, other := p.issue("device", "device-7"), p.issue("service", "x", "spiffe://plant/meter"), p.issue("other", "other")
	strangers := newPKI(t).issue("device", "device-8")
	for _, x := range []struct {
		name   string
		cert   *tls.Certificate
		token  string
		status int
	}{{"by common name", &device, "", 200}, {"by URI", &service, "", 200}, {"another name", &other, "", 403}, {"none", nil, "", 401}, {"a token", nil, "aaaaaaaaaaaaaaaa", 200}} {
		if a, _ := post(x.cert, x.token); a.Status != x.status {
			t.Errorf("%s: %d, want %d", x.name, a.Status, x.status)
		}
	}
	func() {
		tr := &nethttp.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{strangers}}}
		defer tr.CloseIdleConnections()
		if _, err := (&nethttp.Client{Transport: tr}).Get(strings.Replace(r.url, "http://", "https://", 1) + "/healthz"); err == nil {
			// A client that knows the server's authorities sends none that it does not name.
			t.Log("the client kept its certificate to itself")
		}
	}()
	r.expect(`{"id":1,"who":"device-7"}`, `{"id":1,"who":"spiffe://plant/meter"}`, `{"id":1,"who":"a"}`)
	p.issue("server", "another server")
	if _, name := post(&device, ""); name != "another server" {
		t.Errorf("the certificate of %q is still used", name)
	}
}

// TestRightsPerStream: a token of one stream is of no use at another of the same
// address.
func TestRightsPerStream(t *testing.T) {
	one := newRig(t, func(c *Config) { c.Auth = &Auth{Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}}} })
	two := &endpoint{auth: &auth{}, path: "/two", listener: one.ep.listener}
	two.auth, _ = newAuth(&Auth{Tokens: []Token{{Name: "b", Token: "bbbbbbbbbbbbbbbb"}}})
	one.ep.listener.mu.Lock()
	one.ep.listener.routes["/two"] = two
	one.ep.listener.mu.Unlock()
	one.post(typeJSON, `{"id":1}`, "Authorization", "Bearer bbbbbbbbbbbbbbbb").expect(t, 403, "forbidden")
	one.post(typeJSON, `{"id":1}`, "Authorization", "Bearer cccccccccccccccc").expect(t, 401, "unauthorized")
}

func TestWhatLintSays(t *testing.T) {
	base := func() Config { c := DefaultConfig(); c.Path = "/x"; return c }
	token := &Auth{Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}}}
	for _, x := range []struct {
		name   string
		change func(*Config)
		want   string // "" for nothing
	}{
		{"default", func(*Config) {}, ""},
		{"ipv6 loopback", func(c *Config) { c.Listen = "[::1]:80" }, ""},
		{"localhost", func(c *Config) { c.Listen = "localhost:80" }, ""},
		{"all addresses", func(c *Config) { c.Listen = ":80" }, "can be reached from other machines"},
		{"public without auth", func(c *Config) { c.Listen, c.TLS = "0.0.0.0:80", &TLS{Cert: "c", Key: "k"} }, "add auth:"},
		{"public without tls", func(c *Config) { c.Listen, c.Auth = "10.0.0.1:80", token }, "add tls:"},
		{"public with both", func(c *Config) { c.Listen, c.Auth, c.TLS = "10.0.0.1:80", token, &TLS{Cert: "c", Key: "k"} }, ""},
		{"public in writing", func(c *Config) { c.Listen, c.AllowInsecurePublic = ":80", "behind the ingress" }, ""},
		{"short token", func(c *Config) { c.Auth = &Auth{Tokens: []Token{{Name: "a", Token: "hunter2"}}} }, "at least 16 characters"},
		{"one token twice", func(c *Config) { c.Auth = &Auth{Tokens: append(token.Tokens, token.Tokens[0])} }, "already"},
		{"nobody", func(c *Config) { c.Auth = &Auth{} }, "nobody may post"},
		{"certificates without authority", func(c *Config) { c.Auth = &Auth{Certificates: []Certificate{{DNS: "x"}}} }, "client_ca"},
		{"path", func(c *Config) { c.Path = "events" }, "expected a path"},
		{"path taken", func(c *Config) { c.Path = "/healthz" }, "choose another path"},
		{"no timeout", func(c *Config) { c.Limits.BodyTimeout = 0 }, "for ever"},
		{"unsigned time", func(c *Config) {
			c.Auth = &Auth{Signatures: []Signature{{Name: "x", Scheme: schemeCustom, Secrets: []component.Secret{"12345678"}, Tolerance: 1, Header: "x", Signed: "{body}", TimestampHeader: "t"}}}
		}, "proves nothing"},
	} {
		c := base()
		x.change(&c)
		got := ""
		if ps := check(c); len(ps) > 0 {
			got = ps.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
