package network

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"
)

// verdict is a testing.TB that fails without failing the test.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Fatalf(string, ...any) { v.failed = true }
func (v *verdict) Fatal(...any)          { v.failed = true }
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Logf(string, ...any)   {}

// plant checks that a table with a row too few, one twice and one altered would have
// been found.
func (x *trial) plant() {
	x.t.Helper()
	rows, _ := x.producer.log().rows()
	altered := slices.Clone(rows)
	_, rest, _ := strings.Cut(altered[0], ",")
	altered[0] = `{"id":0,` + rest
	for what, expected := range map[string][]string{
		"a row is doubled": rows[1:], "a row is lost": append(slices.Clone(rows), rows[0]), "a row is altered": altered,
	} {
		v := &verdict{TB: x.t}
		rig.SameRows(v, rig.Table{Catalog: x.catalog.URI, Name: x.raw, Store: x.catalog.Store}, expected)
		if !v.failed {
			x.t.Errorf("%s, and the readers do not see it", what)
		}
	}
}

// tcp is a packet between a port of the program and one of a server.
func tcp(way int, server uint16, payload string) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[9], b[32] = 0x45, 6, 0x50
	ports := [2]uint16{40000, server}
	if way == down {
		ports[0], ports[1] = ports[1], ports[0]
	}
	binary.BigEndian.PutUint16(b[20:], ports[0])
	binary.BigEndian.PutUint16(b[22:], ports[1])
	return append(b, payload...)
}

// The link does what the weather says, to the packets of that server and way only.
func TestTheLinkDoesAsItIsTold(t *testing.T) {
	l := &link{rng: rand.New(rand.NewPCG(1, 0)), sky: map[uint16]*[2]weather{}}
	now := time.Now()
	pass := func(way int, server uint16) (time.Duration, bool) {
		at, ok := l.judge(tcp(way, server, "x"), way, now)
		return at.Sub(now), ok
	}
	l.set(1, gone, weather{delay: time.Second})
	if _, ok := pass(up, 1); ok {
		t.Error("a packet passed a way that is cut")
	}
	if d, ok := pass(down, 1); !ok || d != time.Second {
		t.Errorf("the other way: %v %v", d, ok)
	}
	if d, ok := pass(up, 2); !ok || d != 0 {
		t.Errorf("another server: %v %v", d, ok)
	}
	l.set(1, weather{loss: 0.5}, weather{delay: time.Second, early: 0.5})
	for range 1000 {
		pass(up, 1)
		pass(down, 1)
	}
	carried, lost, cut, overtook := l.count()
	if cut != 1 || lost < 400 || lost > 600 || overtook < 400 || overtook > 600 || carried+lost+cut != 2003 {
		t.Errorf("carried %d, lost %d, cut %d, overtook %d", carried, lost, cut, overtook)
	}
	if _, ok := l.judge([]byte{0x60, 1, 2}, up, now); ok {
		t.Error("what is no TCP over IPv4 passed")
	}
}

// The n-th packet that begins with a text is the first to see the new weather.
func TestTheWeatherChangesAtAPacket(t *testing.T) {
	l := &link{rng: rand.New(rand.NewPCG(1, 0)), sky: map[uint16]*[2]weather{}}
	seen := l.when(1, "POST /", 2, func() { l.put(1, gone, gone) })
	var passed []bool
	for _, text := range []string{"GET /", "POST /a", "POST /b", "GET /"} {
		_, ok := l.judge(tcp(up, 1, text), up, time.Now())
		passed = append(passed, ok)
	}
	if !slices.Equal(passed, []bool{true, true, false, false}) {
		t.Errorf("passed %v", passed)
	}
	select {
	case <-seen:
	default:
		t.Error("nobody was told")
	}
}
