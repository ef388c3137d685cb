package http

import (
	"time"

	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"
)

// Config of the source.
type Config struct {
	// Address to listen on, as host:port. Sources of a pipeline may share one if
	// their paths differ. Default: 127.0.0.1:4190.
	Listen string `yaml:"listen"`
	// Path that records are posted to. Default: /STEP.
	Path string `yaml:"path"`
	// What a record that cannot be decoded does: reject (the others are accepted,
	// the answer lists it), all (nothing of its request is accepted) or keep (it is
	// accepted and leaves by the port bad). Default: reject.
	OnBad         string `yaml:"on_bad" oneof:"reject,all,keep"`
	ingest.Config `yaml:",inline"`
	// Columns with what came beside a record. Default: none.
	Metadata Metadata `yaml:"metadata"`
	// Who may post. Without it everybody may who reaches the address.
	Auth *Auth `yaml:"auth"`
	// Certificate of the address. Default: no TLS.
	TLS *TLS `yaml:"tls"`
	// Bounds of what one client can ask for.
	Limits Limits `yaml:"limits"`
	// An address beyond this machine needs tls and auth. Who does without them, for
	// example behind a proxy that has them, says why here. Default: none.
	AllowInsecurePublic string `yaml:"allow_insecure_public"`
}

// Metadata names the columns that hold what came beside a record.
type Metadata struct {
	// Remote: string, the address of the client, as it connected.
	Remote string `yaml:"remote"`
	// Principal: string, who it was, by the name in auth; null without auth.
	Principal string `yaml:"principal"`
	// Path: string, of the request.
	Path string `yaml:"path"`
	// Query: string, of the request, as it stands behind the question mark; null
	// without one.
	Query string `yaml:"query"`
	// ContentType: string, of the request.
	ContentType string `yaml:"content_type"`
	// ReceivedAt: timestamptz, when the request had been read.
	ReceivedAt string `yaml:"received_at"`
	// Index: int64, of the record in its request, from 0.
	Index string `yaml:"index"`
	// Headers: list<struct{key: string, value: binary}>, by name, in lower case.
	// Those that hold secrets (authorization, cookie, proxy-authorization and the
	// headers of signatures) are left out.
	Headers string `yaml:"headers"`
	// Header makes a string column of each header named, null where it is missing:
	// {X-Device: device}. Of several values the first one counts.
	Header              map[string]string `yaml:"header"`
	codec.EventMetadata `yaml:",inline"`
}

// Auth says who may post: whoever shows one of these.
type Auth struct {
	// Bearer tokens, sent as Authorization: Bearer TOKEN.
	Tokens []Token `yaml:"tokens"`
	// Client certificates, signed by tls.client_ca.
	Certificates []Certificate `yaml:"certificates"`
	// Signatures of webhooks.
	Signatures []Signature `yaml:"signatures"`
}

// Token is one bearer token.
type Token struct {
	// Name of its holder, for logs and the column principal.
	Name string `yaml:"name,required"`
	// The token, of at least 16 characters.
	Token component.Secret `yaml:"token,required"`
}

// Certificate allows client certificates. The principal is the name that fits.
type Certificate struct {
	// Common name of the subject; one * stands for any text.
	CommonName string `yaml:"common_name" choose:"one"`
	// DNS name; one * stands for any text.
	DNS string `yaml:"dns" choose:"one"`
	// URI, as spiffe://...; one * stands for any text.
	URI string `yaml:"uri" choose:"one"`
}

// Signature is a webhook's: HMAC-SHA256 over the body as it was sent.
type Signature struct {
	// Name of the sender, for logs and the column principal.
	Name string `yaml:"name,required"`
	// How the sender signs: github (X-Hub-Signature-256), stripe (Stripe-Signature),
	// standard (standardwebhooks.com) or custom, with the keys below.
	Scheme string `yaml:"scheme,required" oneof:"github,stripe,standard,custom"`
	// Secrets that signatures are made with; several while one is replaced by
	// another.
	Secrets []component.Secret `yaml:"secrets,required"`
	// How far the time of a signature may be from now, for schemes that sign it.
	// Default: 5m.
	Tolerance component.Duration `yaml:"tolerance"`
	// custom: header with the signature.
	Header string `yaml:"header"`
	// custom: text before the signature in its header, as sha256=. Default: none.
	Prefix string `yaml:"prefix"`
	// custom: hex or base64. Default: hex.
	Encoding string `yaml:"encoding" oneof:"hex,base64"`
	// custom: what is signed, with {body}, {timestamp} and {id}. Default: {body}.
	Signed string `yaml:"signed"`
	// custom: header with {timestamp}, in seconds since 1970.
	TimestampHeader string `yaml:"timestamp_header"`
	// Header with the delivery's id, which is {id}, and which serves as idempotency
	// key: what the sender delivers again is recognised. Default: X-GitHub-Delivery
	// for github, webhook-id for standard, none for the others.
	IDHeader string `yaml:"id_header"`
}

// SetDefaults implements component.Defaulter.
func (s *Signature) SetDefaults() {
	s.Tolerance, s.Encoding, s.Signed = component.Duration(5*time.Minute), encodingHex, "{body}"
}

// Values of Signature.Scheme and Signature.Encoding.
const (
	schemeGitHub   = "github"
	schemeStripe   = "stripe"
	schemeStandard = "standard"
	schemeCustom   = "custom"
	encodingHex    = "hex"
	encodingBase64 = "base64"
)

// TLS is the certificate of an address. Files are read again when they change.
type TLS struct {
	// File with the certificate and those between it and its authority, as PEM.
	Cert string `yaml:"cert,required"`
	// File with the private key, as PEM.
	Key string `yaml:"key,required"`
	// File with the authorities of client certificates, as PEM. Default: clients
	// are not asked for one.
	ClientCA string `yaml:"client_ca"`
}

// Limits bound what one client can ask for.
type Limits struct {
	// Size of a body as it travels. Default: 16MiB.
	Body component.Bytes `yaml:"body"`
	// Size of a body that was decompressed. Default: 32MiB.
	Decompressed component.Bytes `yaml:"decompressed"`
	// Records in a request. Default: 100000.
	Records int `yaml:"records"`
	// Size of the headers. Default: 32KiB.
	Headers component.Bytes `yaml:"headers"`
	// Connections at a time to the address; an idle one makes room for a new one.
	// Default: 4096.
	Connections int `yaml:"connections"`
	// Memory for the bodies of all requests that are being read or wait for their
	// answer; over it requests are refused for now (429), unless there is no other.
	// Default: an eighth of the pipeline's memory, shared by its sources.
	Memory component.Bytes `yaml:"memory"`
	// How long a client may take for the headers. Default: 10s.
	HeaderTimeout component.Duration `yaml:"header_timeout"`
	// How long a client may take for the body. Default: 1m.
	BodyTimeout component.Duration `yaml:"body_timeout"`
	// How long a client may take to read the answer. Default: 30s.
	AnswerTimeout component.Duration `yaml:"answer_timeout"`
	// How long a connection may be idle between two requests. Default: 2m.
	IdleTimeout component.Duration `yaml:"idle_timeout"`
}

// Values of Config.OnBad.
const (
	onBadReject = "reject"
	onBadAll    = "all"
	onBadKeep   = "keep"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:4190", OnBad: onBadReject, Config: ingest.DefaultConfig(),
		Limits: Limits{
			Body: 16 << 20, Decompressed: 32 << 20, Records: 100_000, Headers: 32 << 10, Connections: 4096,
			HeaderTimeout: component.Duration(10 * time.Second), BodyTimeout: component.Duration(time.Minute),
			AnswerTimeout: component.Duration(30 * time.Second), IdleTimeout: component.Duration(2 * time.Minute),
		},
	}
}
