package http

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow"
)

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "http",
		Summary: "Takes records that others post, and answers when they are safe.",
		Doc: `Delivery: a request is answered when its records are synced to the write-ahead log (ack: wal) or are in every table (ack: commit). Whatever is answered with a status that begins with 2 is kept, as many records as accepted says; with any other status nothing of it is. A request that is posted again with the same Idempotency-Key is answered as the first time and adds nothing.

Formats: application/json (an object, or an array of them), application/x-ndjson, text/csv, application/vnd.apache.arrow.stream and CloudEvents 1.0 in the modes binary, structured and batch; bodies may be compressed with gzip or zstd.

Ordering: in the order in which requests are written, which have the numbers first_sequence to last_sequence. The source is one split.

Bad records: on_bad says what a record does that cannot be decoded.

Replay: what was accepted and not committed is read from the log again.

Memory: bodies being read, within limits.memory; as much again of what was written last.`,
		Default: DefaultConfig,
		Plan:    plan,
		Serve:   func(_ context.Context, env *dataflow.Env, cfg Config) (io.Closer, error) { return open(env, cfg) },
		New: func(_ context.Context, env *dataflow.Env, _ Config) (dataflow.Source, error) {
			return env.Served.(*endpoint).stream.Source(env), nil
		},
	})
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	p := check(cfg)
	if in.Decoded == nil {
		p = append(p, component.Problem{Msg: "http gives bytes, and the step has no decode block to make rows of them: write decode: {json: {schema: {...}}} beside http"})
		return component.SourcePlan{}, p
	}
	p = append(p, checkColumns(in.Decoded, cfg.Metadata)...)
	if len(p) > 0 {
		return component.SourcePlan{}, p
	}
	spec := ingest.Spec{Decoded: in.Decoded, Meta: cfg.Metadata.fields()}
	return component.SourcePlan{
		Schema: spec.Schema(), Tasks: 1, Arrived: true, Pauses: true,
		Target: cfg.Listen + pathOf(cfg, in.Step), Shares: map[string]component.Shared{cfg.Listen: cfg.shared()},
	}, nil
}

func pathOf(cfg Config, step string) string { return cmp.Or(cfg.Path, "/"+step) }

// shared is what all sources of one address must say alike.
func (c Config) shared() component.Shared {
	l := c.Limits
	out := component.Shared{
		"limits.headers": l.Headers.String(), "limits.connections": strconv.Itoa(l.Connections),
		"limits.header_timeout": l.HeaderTimeout.String(), "limits.idle_timeout": l.IdleTimeout.String(), "tls": "none",
	}
	if t := c.TLS; t != nil {
		out["tls"] = fmt.Sprintf("cert: %s, key: %s, client_ca: %s", t.Cert, t.Key, cmp.Or(t.ClientCA, "none"))
	}
	return out
}

// problems gathers what is wrong.
type problems struct{ list component.Problems }

func (p *problems) add(path, format string, args ...any) {
	p.list = append(p.list, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
}

func check(cfg Config) component.Problems {
	p := problems{cfg.Config.Check()}
	if c := cfg.Path; c != "" && (!strings.HasPrefix(c, "/") || strings.ContainsAny(c, "?#%{} ")) {
		p.add("path", "%q: expected a path as /events", c)
	} else if c == pathHealth || c == pathOpenAPI {
		p.add("path", "%s is the address's own: choose another path", c)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || port == "" {
		p.add("listen", "%q: expected host:port, as 127.0.0.1:4190", cfg.Listen)
	} else if !isLoopback(host) && cfg.AllowInsecurePublic == "" {
		var missing []string
		if cfg.TLS == nil {
			missing = append(missing, "tls: {cert: FILE, key: FILE}")
		}
		if cfg.Auth == nil {
			missing = append(missing, "auth: {tokens: [{name: NAME, token: ${env:TOKEN}}]}")
		}
		if len(missing) > 0 {
			p.add("listen", "%s can be reached from other machines, so that anybody could read or send records: add %s; or write in allow_insecure_public why it is safe as it is", cfg.Listen, strings.Join(missing, " and "))
		}
	}
	p.limits(cfg.Limits)
	p.auth(cfg)
	return p.list
}

// isLoopback says whether host is this machine's own.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (p *problems) limits(l Limits) {
	for _, x := range []struct {
		path   string
		v, min component.Bytes
	}{{"body", l.Body, 1 << 10}, {"decompressed", l.Decompressed, 1 << 10}, {"headers", l.Headers, 4 << 10}} {
		if x.v < x.min || x.v > 1<<30 {
			p.add("limits."+x.path, "%s: expected %s to 1GiB", x.v, x.min)
		}
	}
	if l.Records < 1 || l.Records > 10_000_000 {
		p.add("limits.records", "%d: expected 1 to 10000000", l.Records)
	}
	if l.Connections < 1 || l.Connections > 1_000_000 {
		p.add("limits.connections", "%d: expected 1 to 1000000", l.Connections)
	}
	for path, d := range map[string]component.Duration{"header_timeout": l.HeaderTimeout, "body_timeout": l.BodyTimeout, "answer_timeout": l.AnswerTimeout, "idle_timeout": l.IdleTimeout} {
		if d <= 0 {
			p.add("limits."+path, "expected a duration, got none: without one a client may hold a connection for ever")
		}
	}
}

// minToken is the least length of a bearer token.
const minToken = 16

func (p *problems) auth(cfg Config) {
	a := cfg.Auth
	if a == nil {
		return
	}
	if len(a.Tokens)+len(a.Certificates)+len(a.Signatures) == 0 {
		p.add("auth", "nobody may post: write tokens, certificates or signatures")
	}
	seen := map[string]string{}
	for i, t := range a.Tokens {
		path := fmt.Sprintf("auth.tokens[%d]", i)
		if t.Name == "" {
			p.add(path+".name", "expected the name of the token's holder")
		}
		if len(t.Token.Reveal()) < minToken {
			p.add(path+".token", "expected at least %d characters", minToken)
		} else if other, ok := seen[t.Token.Reveal()]; ok {
			p.add(path+".token", "is the token of %q already", other)
		}
		seen[t.Token.Reveal()] = t.Name
	}
	for i, c := range a.Certificates {
		path := fmt.Sprintf("auth.certificates[%d]", i)
		n := 0
		for _, v := range []string{c.CommonName, c.DNS, c.URI} {
			if v != "" {
				n++
			}
			if strings.Count(v, "*") > 1 {
				p.add(path, "%q: expected at most one *", v)
			}
		}
		if n != 1 {
			p.add(path, "expected one of common_name, dns and uri")
		}
	}
	switch {
	case len(a.Certificates) > 0 && (cfg.TLS == nil || cfg.TLS.ClientCA == ""):
		p.add("auth.certificates", "client certificates are not asked for: write tls: {..., client_ca: FILE}")
	case len(a.Certificates) == 0 && cfg.TLS != nil && cfg.TLS.ClientCA != "" && len(a.Tokens)+len(a.Signatures) == 0:
		p.add("auth", "client_ca is set: write auth.certificates: [{common_name: \"*\"}], or which names may post")
	}
	for i, s := range a.Signatures {
		p.signature(fmt.Sprintf("auth.signatures[%d]", i), s)
	}
}

func (p *problems) signature(path string, s Signature) {
	if s.Name == "" {
		p.add(path+".name", "expected the name of the sender")
	}
	if len(s.Secrets) == 0 {
		p.add(path+".secrets", "expected a secret: write secrets: [\"${env:SECRET}\"]")
	}
	for i, x := range s.Secrets {
		if len(x.Reveal()) < 8 {
			p.add(fmt.Sprintf("%s.secrets[%d]", path, i), "expected at least 8 characters")
		}
	}
	if s.Tolerance <= 0 {
		p.add(path+".tolerance", "expected a duration: without one an old request could be sent again")
	}
	if s.Scheme != schemeCustom {
		if s.Header+s.Prefix+s.TimestampHeader != "" || s.Encoding != encodingHex || s.Signed != "{body}" {
			p.add(path, "header, prefix, encoding, signed and timestamp_header belong to scheme: custom; %s knows its own", s.Scheme)
		}
		if _, err := newSigner(s); err != nil {
			p.add(path+".secrets", "%v", err)
		}
		return
	}
	if s.Header == "" {
		p.add(path+".header", "expected the header that the signature is in")
	}
	if !strings.Contains(s.Signed, "{body}") {
		p.add(path+".signed", "%q: expected {body} in it", s.Signed)
	}
	if strings.Contains(s.Signed, "{timestamp}") != (s.TimestampHeader != "") {
		p.add(path+".timestamp_header", "{timestamp} in signed and timestamp_header belong together: a time that is not signed proves nothing")
	}
	if strings.Contains(s.Signed, "{id}") && s.IDHeader == "" {
		p.add(path+".id_header", "expected the header of {id} in signed")
	}
}

// checkColumns looks for names that are taken.
func checkColumns(decoded *arrow.Schema, m Metadata) component.Problems {
	var p problems
	seen := map[string]string{}
	for _, f := range decoded.Fields() {
		seen[f.Name] = "is a decoded column already"
	}
	for _, c := range m.columns() {
		path := "metadata." + c.path
		switch {
		case c.name == "":
			p.add(path, "expected the name of a column")
		case seen[c.name] != "":
			p.add(path, "column %q %s: choose another name", c.name, seen[c.name])
		case dataflow.IsSystem(c.name):
			p.add(path, "column %q: names that begin with %q are reserved", c.name, dataflow.SysPrefix)
		}
		seen[c.name] = "is the column of metadata." + c.path + " already"
	}
	for _, h := range slices.Sorted(maps.Keys(m.Header)) {
		if !validHeader(h) {
			p.add("metadata.header", "%q is no name of a header", h)
		} else if isSecretHeader(h) {
			p.add("metadata.header."+h, "the header %s holds a secret, which no table may", h)
		}
	}
	return p.list
}

// validHeader is RFC 9110's token.
func validHeader(s string) bool {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) {
			return false
		}
	}
	return s != ""
}
