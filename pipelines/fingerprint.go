package pipelines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	"frazil/dataflow/component"
)

// The fingerprint of a step is a format: it stands in targets and manifests. It
// is the SHA-256 of the component's name, the options that differ from their
// defaults (so that a new option changes nothing), and what the step reads.

// fingerprint hashes a step's component and config with parts: further config
// blocks and fingerprints.
func fingerprint(info *component.Info, cfg any, parts ...any) string {
	texts := []string{info.Kind, info.Name, canonical(cfg, info.NewConfig())}
	for _, p := range parts {
		if s, ok := p.(string); ok {
			texts = append(texts, s)
			continue
		}
		texts = append(texts, canonical(p, nil))
	}
	return hash(texts...)
}

// hash is the SHA-256 of texts, each with its length, so that no two lists of
// texts are the same bytes.
func hash(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonical writes a config as JSON with sorted keys, without the options that
// have their default. Secrets are hidden, so that a new password changes nothing.
func canonical(cfg, def any) string {
	var d reflect.Value
	if def != nil {
		d = reflect.ValueOf(def)
	}
	b, err := json.Marshal(plain(reflect.ValueOf(cfg), d))
	if err != nil {
		panic(fmt.Sprintf("config %T cannot be written as JSON: %v", cfg, err))
	}
	return string(b)
}

var marshalerType = reflect.TypeFor[json.Marshaler]()

// plain turns structs with yaml tags into maps.
func plain(v, def reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if def.IsValid() {
			if def.IsNil() {
				def = reflect.Value{}
			} else {
				def = def.Elem()
			}
		}
		return plain(v.Elem(), def)
	case reflect.Struct:
		if v.Type().Implements(marshalerType) || v.NumField() > 0 && v.Type().Field(0).Tag.Get("yaml") == "" {
			return v.Interface()
		}
		out := map[string]any{}
		for _, f := range component.FieldsOf(v.Type()) {
			x, d := v.FieldByIndex(f.Index), reflect.Value{}
			if def.IsValid() {
				d = def.FieldByIndex(f.Index)
			}
			if d.IsValid() && reflect.DeepEqual(x.Interface(), d.Interface()) || !d.IsValid() && x.IsZero() {
				continue
			}
			out[f.Name] = plain(x, d)
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i), reflect.Value{})
		}
		return out
	}
	return v.Interface()
}
