// Package registry speaks to schema registries with Confluent's API: schemas by id and
// by subject, kept once they were fetched. Sources and sinks see it as a
// dataflow.SchemaRegistry.
//
// It knows nothing of what stands in a schema: that is codec's.
//
// Start to read at [Config] and [New].
package registry

import (
	"fmt"
	"net/url"

	"frazil/dataflow/component"
)

// Kind is the key of such a connection in a pipeline file.
const Kind = "schema_registry"

// Config is what a user writes under "schema_registry".
type Config struct {
	// URL of the API, as http://127.0.0.1:8081; of Apicurio with its path,
	// .../apis/ccompat/v7.
	URL string `yaml:"url,required"`
	// User to log in as (basic auth). Default: none.
	User string `yaml:"user"`
	// Password of the user.
	Password component.Secret `yaml:"password"`
	// Token to show as a bearer, in the place of user and password. Default: none.
	Token component.Secret `yaml:"token"`
	// TLS says whom to trust at an https URL. Default: the authorities of the machine.
	TLS *component.ClientTLS `yaml:"tls"`
}

func init() {
	component.RegisterConnection(component.Connection[Config]{
		Name:    Kind,
		Summary: "A schema registry with Confluent's API (Confluent, Apicurio, Redpanda, Karapace).",
		Doc: `Schemas are kept in memory once they were fetched: what an id means never changes. An id that the registry
does not have is asked for again after 30 seconds.`,
		Default: func() Config { return Config{} },
		Check:   func(_ component.PlanEnv, cfg Config) error { return check(cfg) },
	})
}

func check(cfg Config) error {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		bad("url", "%q: expected a URL as http://127.0.0.1:8081", cfg.URL)
	case u.User != nil:
		bad("url", "a login does not stand in the URL, which is printed: write user and password")
	case cfg.TLS != nil && u.Scheme != "https":
		bad("tls", "the URL is not of https")
	}
	if (cfg.User == "") != (cfg.Password == "") {
		bad("user", "user and password belong together: write both or none")
	}
	if cfg.Token != "" && cfg.User != "" {
		bad("token", "expected a token or user and password, got both")
	}
	if cfg.TLS != nil {
		out = append(out, cfg.TLS.Check("tls")...)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
