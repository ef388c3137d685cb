package checkpoint

import "testing"

func TestAManifestOfAnotherVersionIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":2,"epoch":7}`:             "the manifest of the last epoch has version 2, this program knows versions up to 1: the state was written by a newer version of the program: use that version, or start with an empty state directory",
		`{"version":3,"sources":["changed"]}`: "the manifest of the last epoch has version 3, this program knows versions up to 1: the state was written by a newer version of the program: use that version, or start with an empty state directory",
		`{"epoch":7}`:                         "the manifest of the last epoch has version 0, which is none: the state is damaged",
	} {
		if m, err := Decode([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, error\n%v\nwant\n%s", text, m, err, want)
		}
	}
}
