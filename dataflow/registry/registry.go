package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
	// believed is how long an id that is not there is not asked for again.
	believed = 30 * time.Second
	// maxReferences bounds the schemas that one refers to, all together.
	maxReferences = 500
)

// Registry is a client with what it has fetched.
type Registry struct {
	url    string
	client *sr.Client
	now    func() time.Time
	mu     struct {
		sync.Mutex
		byID    map[int]*dataflow.RegisteredSchema
		missing map[int]time.Time // until when that is believed
	}
}

// New makes a client; files are relative to dir. Nothing is asked yet. It holds no
// connection open between questions, so there is nothing to close.
func New(cfg Config, dir string) (*Registry, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if cfg.TLS != nil {
		t, err := cfg.TLS.Config(dir)
		if err != nil {
			return nil, dataflow.Permanent(err)
		}
		transport.TLSClientConfig = t
	}
	opts := []sr.ClientOpt{sr.URLs(strings.TrimRight(cfg.URL, "/")), sr.UserAgent("frazil"), sr.HTTPClient(&http.Client{Timeout: askTimeout, Transport: transport})}
	switch {
	case cfg.Token != "":
		opts = append(opts, sr.BearerToken(cfg.Token.Reveal()))
	case cfg.User != "":
		opts = append(opts, sr.BasicAuth(cfg.User, cfg.Password.Reveal()))
	}
	cl, err := sr.NewClient(opts...)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	r := &Registry{url: cfg.URL, client: cl, now: time.Now}
	r.mu.byID, r.mu.missing = map[int]*dataflow.RegisteredSchema{}, map[int]time.Time{}
	return r, nil
}

// Known implements dataflow.SchemaRegistry.
func (r *Registry) Known(id int) (*dataflow.RegisteredSchema, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.mu.byID[id]; s != nil {
		return s, true
	}
	until, missing := r.mu.missing[id]
	return nil, missing && r.now().Before(until)
}

// Fetch implements dataflow.SchemaRegistry.
func (r *Registry) Fetch(ctx context.Context, id int) error {
	if _, known := r.Known(id); known {
		return nil
	}
	got, err := r.client.SchemaByID(ctx, id)
	var s *dataflow.RegisteredSchema
	if err == nil {
		s, err = r.whole(ctx, sr.SubjectSchema{ID: id, Schema: got})
	}
	err = r.classify(err, "get schema %d", id)
	if err != nil && !errors.Is(err, dataflow.ErrNoSchema) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == nil {
		if len(r.mu.missing) >= 10_000 {
			clear(r.mu.missing)
		}
		r.mu.missing[id] = r.now().Add(believed)
		return nil
	}
	r.mu.byID[id] = s
	return nil
}

// Subject implements dataflow.SchemaRegistry.
func (r *Registry) Subject(ctx context.Context, subject string, version int) (*dataflow.RegisteredSchema, error) {
	what := fmt.Sprintf("version %d", version)
	if version == 0 {
		version, what = -1, "the latest version"
	}
	got, err := r.client.SchemaByVersion(ctx, subject, version)
	var s *dataflow.RegisteredSchema
	if err == nil {
		s, err = r.whole(ctx, got)
	}
	if err != nil {
		return nil, r.classify(err, "get %s of subject %q", what, subject)
	}
	r.keep(s)
	return s, nil
}

// keep remembers a schema by its id.
func (r *Registry) keep(s *dataflow.RegisteredSchema) {
	if s.ID == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.byID[s.ID] == nil {
		r.mu.byID[s.ID] = s
	}
}

// whole fetches what a schema refers to.
func (r *Registry) whole(ctx context.Context, s sr.SubjectSchema) (*dataflow.RegisteredSchema, error) {
	out := &dataflow.RegisteredSchema{ID: s.ID, Version: s.Version, Kind: s.Type.String(), Text: s.Schema.Schema}
	seen := map[sr.SchemaReference]bool{}
	var add func(refs []sr.SchemaReference) error
	add = func(refs []sr.SchemaReference) error {
		for _, ref := range refs {
			if seen[ref] {
				continue
			}
			if seen[ref] = true; len(seen) > maxReferences {
				return dataflow.Permanentf("the schema refers to more than %d others", maxReferences)
			}
			got, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
			if err != nil {
				return fmt.Errorf("get version %d of subject %q, which it refers to as %q: %w", ref.Version, ref.Subject, ref.Name, err)
			}
			if err := add(got.References); err != nil {
				return err
			}
			out.References = append(out.References, dataflow.SchemaReference{Name: ref.Name, Subject: ref.Subject, Version: ref.Version, Text: got.Schema.Schema})
		}
		return nil
	}
	if err := add(s.References); err != nil {
		return nil, err
	}
	return out, nil
}

// sent is the form in which a schema goes to the registry.
func sent(s dataflow.RegisteredSchema) (sr.Schema, error) {
	out := sr.Schema{Schema: s.Text}
	if err := out.Type.UnmarshalText([]byte(s.Kind)); err != nil {
		return out, dataflow.Permanent(err)
	}
	for _, ref := range s.References {
		out.References = append(out.References, sr.SchemaReference{Name: ref.Name, Subject: ref.Subject, Version: ref.Version})
	}
	return out, nil
}

// Register implements dataflow.SchemaRegistry.
func (r *Registry) Register(ctx context.Context, subject string, s dataflow.RegisteredSchema) (int, error) {
	text, err := sent(s)
	if err != nil {
		return 0, err
	}
	id, err := r.client.RegisterSchema(ctx, subject, text, -1, -1)
	if e := (*sr.ResponseError)(nil); errors.As(err, &e) && e.StatusCode == http.StatusConflict {
		return 0, r.refused(ctx, subject, text, e)
	}
	if err != nil {
		return 0, r.classify(err, "register a schema under subject %q", subject)
	}
	return id, nil
}

// refused says what a registry has against a schema.
func (r *Registry) refused(ctx context.Context, subject string, s sr.Schema, refusal *sr.ResponseError) error {
	why := refusal.Error()
	if c, err := r.client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, s); err == nil && len(c.Messages) > 0 {
		why = strings.Join(c.Messages, "; ")
	}
	return dataflow.Permanent(fmt.Errorf("%w: the schema registry %s refuses the schema for subject %q: %s. Write rows that fit the subject's schemas (use: latest takes its last one as it is), lower the subject's compatibility level, or write to another subject",
		dataflow.ErrIncompatibleSchema, r.url, subject, why))
}

// Find implements dataflow.SchemaRegistry.
func (r *Registry) Find(ctx context.Context, subject string, s dataflow.RegisteredSchema) (int, error) {
	text, err := sent(s)
	if err != nil {
		return 0, err
	}
	got, err := r.client.LookupSchema(ctx, subject, text)
	if err != nil {
		return 0, r.classify(err, "find the schema under subject %q", subject)
	}
	return got.ID, nil
}

// classify says what kind of error it is; nil stays nil.
func (r *Registry) classify(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	text := fmt.Sprintf(format, args...)
	e := (*sr.ResponseError)(nil)
	if !errors.As(err, &e) {
		return dataflow.Unavailable(fmt.Errorf("schema registry %s: %s: %w", r.url, text, err))
	}
	err = fmt.Errorf("schema registry %s: %s: it answers %d: %w", r.url, text, e.StatusCode, err)
	switch {
	case e.StatusCode == http.StatusNotFound && e.ErrorCode != 0:
		return fmt.Errorf("%w: %w", dataflow.ErrNoSchema, err)
	case e.StatusCode == http.StatusNotFound:
		// Not an answer of the API: another server, or another path.
		return dataflow.Permanent(fmt.Errorf("%w: is there a registry at that URL, and with that path?", err))
	case e.StatusCode == http.StatusTooManyRequests || e.StatusCode >= 500:
		return dataflow.Unavailable(err)
	}
	return dataflow.Permanent(err)
}

var _ dataflow.SchemaRegistry = (*Registry)(nil)
