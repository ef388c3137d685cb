package component

import "log/slog"

// Secret is text that is never printed: its String, JSON and log forms are
// "***". In the file it is ${env:NAME}, ${file:PATH} or the text itself.
type Secret string

const hidden = "***"

// Reveal returns the text, for the call that needs it.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the text from JSON and everything that asks for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the text from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
