package http

import (
	"context"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"
	"frazil/dataflow/webhooks"
)

// Config is what a user writes under "http".
type Config struct {
	// URL that rows are posted to. {EXPRESSION} in its path and query is replaced by the
	// value of each row, escaped, as in https://example.com/shops/{shop}/orders. It may
	// begin with one, whose value is then taken as it is: the rows choose the server.
	URL string `yaml:"url,required"`
	// Method is POST, PUT, PATCH or DELETE; {EXPRESSION} as in url. Default: POST.
	Method string `yaml:"method"`
	// Headers maps names of headers to expressions; one that is null is left out.
	// Default: none.
	Headers component.NamedExprs `yaml:"headers"`
	// Body is an expression whose text or bytes are the body, or of a batch the row in
	// it. Default: a JSON object of all columns.
	Body string `yaml:"body"`
	// ContentType of the body. Default: application/json; of a batch in ndjson
	// application/x-ndjson.
	ContentType string `yaml:"content_type"`
	// Batch puts rows with the same URL, method and headers into one request. Default:
	// one request for each row.
	Batch *Batch `yaml:"batch"`
	// Key is an expression; rows of one value are delivered in order, those of others at
	// the same time. Default: all rows in order, one request at a time.
	Key string `yaml:"key"`
	// Parallel is how many requests are under way at a time, with key. Default: 8.
	Parallel int `yaml:"parallel"`
	// IdempotencyHeader has a name that is the same whenever a request is sent again,
	// after an error, a restart or a crash. Default: Idempotency-Key.
	IdempotencyHeader string `yaml:"idempotency_header"`
	// Sign signs requests as standardwebhooks.com says: headers webhook-id,
	// webhook-timestamp and webhook-signature. Default: they are not signed.
	Sign *Sign `yaml:"sign"`
	// Bearer is sent as Authorization: Bearer TOKEN. Default: none.
	Bearer component.Secret `yaml:"bearer"`
	// Basic is sent as Authorization: Basic. Not together with bearer. Default: none.
	Basic *Basic `yaml:"basic"`
	// TLS of https. Default: the system's authorities.
	TLS component.ClientTLS `yaml:"tls"`
	// Timeout of one request, until its answer was read. Default: 30s.
	Timeout component.Duration `yaml:"timeout"`
	// RetryStatus lists statuses that begin with 3 or 4 and do not end the matter.
	// 408, 425 and 429 never do. Default: none.
	RetryStatus []int `yaml:"retry_status"`
	// GiveUpAfter is how long a request is tried before it counts as refused, since the
	// process first sent it. Default: off, for ever.
	GiveUpAfter component.Duration `yaml:"give_up_after"`
}

// Batch is how rows are put together.
type Batch struct {
	// Rows of a request at most. Default: 100.
	Rows int `yaml:"rows"`
	// Bytes of its rows at most; a row that is larger goes alone. Default: 1MiB.
	Bytes component.Bytes `yaml:"bytes"`
	// Format is json (an array) or ndjson (a line each). Default: json.
	Format string `yaml:"format" oneof:"json,ndjson"`
}

// SetDefaults implements component.Defaulter.
func (b *Batch) SetDefaults() { *b = Batch{Rows: 100, Bytes: 1 << 20, Format: formatJSON} }

const (
	formatJSON   = "json"
	formatNDJSON = "ndjson"
)

// Sign is how requests are signed.
type Sign struct {
	// Secrets, as whsec_ and base64; several while one is replaced by another: each signs.
	Secrets []component.Secret `yaml:"secrets,required"`
}

// Basic is a name and a password.
type Basic struct {
	// User is the name.
	User string `yaml:"user,required"`
	// Password of the user.
	Password component.Secret `yaml:"password,required"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Method: "POST", Parallel: 8, IdempotencyHeader: "Idempotency-Key", Timeout: component.Duration(30 * time.Second)}
}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "http",
		Summary: "Posts rows to HTTP servers: webhooks, one by one or in batches, signed and retried.",
		Doc: `Delivery: at least once. Rows wait in files of the spool folder until their checkpoint is durable and are then
posted; the commit is done when every request was answered with a status that begins with 2, or was refused for good. A
request that was under way when the process was killed is sent again, with the same idempotency key and body: a receiver
that honours the key has each row once. Positions are kept in the spool folder.

Order: of one key as the rows arrive; without key, of all rows.

Retries: network errors, statuses that begin with 5, 408, 425 and 429 are tried again, for ever or until give_up_after,
with growing waits and as Retry-After says. Other statuses are final: the rows go to a file in the folder refused of the
sink's spool, with status and answer.

Bad rows: a row whose URL, method, header or body cannot be computed leaves by the port "bad".

Memory: the requests under way, parallel times the size of two.`,
		Changes:   component.ChangesAsRows,
		Default:   DefaultConfig,
		Plan:      plan,
		NewWriter: newWriter,
		NewCommitter: func(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Committer, error) {
			s, err := newSender(env, cfg)
			if err != nil {
				return nil, err
			}
			return spool.NewCommitter(env, target(in.Step, cfg), s), nil
		},
	})
}

func plan(in component.SinkIn, cfg Config) (component.SinkPlan, error) {
	_, problems := newLayout(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return component.SinkPlan{}, problems
	}
	return component.SinkPlan{Target: string(target(in.Step, cfg)), Tasks: 1, Spools: true}, nil
}

// target names the step too: several sinks may post to one server.
func target(step string, cfg Config) dataflow.Target {
	return dataflow.Target(fmt.Sprintf("http:%s (%s)", cfg.URL, step))
}

// own are headers that the sink sets itself.
var own = map[string]string{
	"Content-Type": "content_type", "Authorization": "bearer or basic", "Content-Length": "nothing: it is set", "Host": "url",
	"Transfer-Encoding": "nothing: it is set", "Connection": "nothing: it is set",
	textproto.CanonicalMIMEHeaderKey(webhooks.HeaderID): "sign", textproto.CanonicalMIMEHeaderKey(webhooks.HeaderTimestamp): "sign",
	textproto.CanonicalMIMEHeaderKey(webhooks.HeaderSignature): "sign",
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	for _, h := range cfg.Headers {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		switch {
		case !headerName(h.Name):
			bad("headers."+h.Name, "%q is no name of a header", h.Name)
		case own[name] != "" && !(name == "Authorization" && cfg.Bearer == "" && cfg.Basic == nil):
			bad("headers."+h.Name, "the sink sets this header itself: write %s", own[name])
		case name == textproto.CanonicalMIMEHeaderKey(cfg.IdempotencyHeader):
			bad("headers."+h.Name, "this is the header of the idempotency key: see idempotency_header")
		}
	}
	if !headerName(cfg.IdempotencyHeader) {
		bad("idempotency_header", "%q is no name of a header", cfg.IdempotencyHeader)
	}
	if b := cfg.Batch; b != nil && (b.Rows < 1 || b.Bytes < 1) {
		bad("batch", "rows and bytes: expected 1 or more")
	}
	if cfg.Parallel < 1 || cfg.Parallel > 1000 {
		bad("parallel", "%d: expected 1 to 1000", cfg.Parallel)
	}
	if s := cfg.Sign; s != nil {
		if len(s.Secrets) == 0 {
			bad("sign.secrets", "expected one or more")
		}
		for i, x := range s.Secrets {
			if _, err := webhooks.Key(x.Reveal()); err != nil {
				bad(fmt.Sprintf("sign.secrets[%d]", i), "%v", err)
			}
		}
	}
	if cfg.Bearer != "" && cfg.Basic != nil {
		bad("basic", "not together with bearer")
	}
	if cfg.Timeout.D() < 100*time.Millisecond {
		bad("timeout", "%s: expected at least 100ms", cfg.Timeout)
	}
	for i, s := range cfg.RetryStatus {
		if s < 300 || s > 499 {
			bad(fmt.Sprintf("retry_status[%d]", i), "%d: expected 300 to 499; those from 500 on are always tried again", s)
		}
	}
	return append(out, cfg.TLS.Check("tls")...)
}

// headerName says whether s may be the name of a header.
func headerName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}
