package expr

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The cursor gives what the zone gives, whatever the order of the rows, near changes too.
func TestTheCursorOfAZoneAgreesWithIt(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe", "UTC", "est", "+05:30"} {
		z, ok := zoneNamed(name)
		if !ok {
			t.Fatalf("no zone %q", name)
		}
		var c zoneCursor
		at := int64(0)
		for range 20000 {
			switch rnd.IntN(4) {
			case 0:
				at = rnd.Int64N(200*366*dayUS) - 100*366*dayUS
			case 1:
				at += rnd.Int64N(4*dayUS) - 2*dayUS
			default:
				at += rnd.Int64N(2*hourUS) - hourUS
			}
			if !c.use(name) {
				t.Fatal(name)
			}
			if got, want := c.toLocal(at), z.toLocal(at); got != want {
				t.Fatalf("%s: %s is locally %d, expected %d", name, appendTimestamp(nil, at, "+00"), got, want)
			}
			if got, want := c.toUTC(at), z.toUTC(at); got != want {
				t.Fatalf("%s: local %s is %d, expected %d", name, appendTimestamp(nil, at, ""), got, want)
			}
		}
	}
}
