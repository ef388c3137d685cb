package codec

import (
	"encoding/hex"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
)

func newSparkplug(t testing.TB) *Sparkplug {
	t.Helper()
	c := &SparkplugConfig{}
	c.SetDefaults()
	d, err := c.newDecoder(memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.(*Sparkplug).b.Release() })
	return d.(*Sparkplug)
}

// sparkRows flushes d: one text a row, of the columns that are not null and not
// false.
func sparkRows(d *Sparkplug) []string {
	n := d.Rows()
	cols := d.Flush()
	b := array.NewRecordBatch(d.Schema(), cols, int64(n))
	defer b.Release()
	for _, c := range cols {
		c.Release()
	}
	var out []string
	for i := range n {
		var parts []string
		for j, f := range d.Schema().Fields() {
			text := string(dataflow.AppendJSON(nil, b.Column(j), i))
			if text != "null" && text != "false" {
				parts = append(parts, f.Name+"="+text)
			}
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

func sameRows(t *testing.T, got []string, want string) {
	t.Helper()
	w := strings.Split(strings.TrimSpace(want), "\n")
	if want == "" {
		w = nil
	}
	for i := range w {
		w[i] = strings.TrimSpace(w[i])
	}
	if !slices.Equal(got, w) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(w, "\n"))
	}
}

// Payloads that the reference implementation (Eclipse Tahu, JavaScript) and an
// independent one (pysparkplug) encoded.
func TestSparkplugOfOtherEncoders(t *testing.T) {
	text, err := os.ReadFile("testdata/sparkplug/payloads.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := newSparkplug(t)
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if parts[0] == "#" {
			continue
		}
		payload, err := hex.DecodeString(parts[2])
		if err != nil {
			t.Fatal(err)
		}
		if _, bads := d.AppendTopic(parts[1], payload); len(bads) > 0 {
			t.Errorf("%s: %v", parts[1], bads)
		}
	}
	sameRows(t, sparkRows(d), `
		message="NBIRTH" group="G1" node="N1" metric="bdSeq" type="UInt64" value_int=3 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="Node Control/Rebirth" type="Boolean" timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="temp" type="Int32" value_int=-12 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="small" type="Int8" value_int=-5 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="short" type="Int16" value_int=-300 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="big" type="Int64" value_int=-9007199254740991 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="u8" type="UInt8" value_int=250 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="u32" type="UInt32" value_int=4000000000 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="f" type="Float" value_double=1.5 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="d" type="Double" value_double=-2.25 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="b" type="Boolean" value_bool=true timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="s" type="String" value_string="" timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="when" type="DateTime" value_time="2026-03-01T10:00:00.123000Z" timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="raw" type="Bytes" value_bytes="00ff01" timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G1" node="N1" metric="id" type="UUID" value_string="a9b9c1f0-0000-4000-8000-000000000001" timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NDATA" group="G1" node="N1" metric="temp" type="Int32" value_int=-13 timestamp="2026-03-01T10:00:01.000000Z" seq=1
		message="NDATA" group="G1" node="N1" metric="big" type="Int64" value_int=-1 timestamp="2026-03-01T10:00:01.001000Z" seq=1
		message="NDATA" group="G1" node="N1" metric="d" type="Double" value_double="NaN" timestamp="2026-03-01T10:00:01.000000Z" seq=1
		message="NDATA" group="G1" node="N1" metric="s" type="String" value_string="größe" timestamp="2026-03-01T10:00:01.000000Z" seq=1 is_historical=true
		message="NDATA" group="G1" node="N1" metric="f" type="Float" timestamp="2026-03-01T10:00:01.000000Z" seq=1 is_null=true
		message="NBIRTH" group="G2" node="N2" metric="bdSeq" type="Int64" value_int=7 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="NBIRTH" group="G2" node="N2" metric="temp" type="Int32" value_int=-12 timestamp="2026-03-01T10:00:00.000000Z" seq=0
		message="DBIRTH" group="G2" node="N2" device="D2" metric="speed" type="Int16" value_int=-300 timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DBIRTH" group="G2" node="N2" device="D2" metric="on" type="Boolean" value_bool=true timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DBIRTH" group="G2" node="N2" device="D2" metric="label" type="String" value_string="a" timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DBIRTH" group="G2" node="N2" device="D2" metric="level" type="Float" value_double=0.5 timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DBIRTH" group="G2" node="N2" device="D2" metric="count" type="UInt64" value_int=9223372036854775807 timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DBIRTH" group="G2" node="N2" device="D2" metric="at" type="DateTime" value_time="2026-03-01T10:00:00.000000Z" timestamp="2026-03-01T10:00:00.000000Z" seq=1
		message="DDATA" group="G2" node="N2" device="D2" metric="speed" type="Int16" value_int=-301 timestamp="2026-03-01T10:00:00.500000Z" seq=2
		message="DDATA" group="G2" node="N2" device="D2" metric="on" type="Boolean" timestamp="2026-03-01T10:00:00.500000Z" seq=2
		message="DDATA" group="G2" node="N2" device="D2" metric="label" type="String" timestamp="2026-03-01T10:00:00.500000Z" seq=2 is_null=true
		message="DDATA" group="G2" node="N2" device="D2" metric="level" type="Float" value_double=-0.25 timestamp="2026-03-01T10:00:00.500000Z" seq=2
		message="NDATA" group="G2" node="N2" metric="temp" type="Int32" value_int=-13 timestamp="2026-03-01T10:00:00.500000Z" seq=3
		message="DDEATH" group="G2" node="N2" device="D2" timestamp="2026-03-01T10:00:00.600000Z" seq=4 is_null=true
		message="NDEATH" group="G2" node="N2" metric="bdSeq" type="Int64" value_int=7 timestamp="2026-03-01T10:00:00.000000Z"
	`)
	if got := d.Counts(); len(got) > 0 {
		t.Errorf("noticed %v, want nothing", got)
	}
}

// spark builds payloads for tests.
type spark struct{ b []byte }

func (s *spark) metric(name string, alias int, datatype uint32, field protowire.Number, bits uint64) *spark {
	var m []byte
	if name != "" {
		m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), name)
	}
	if alias >= 0 {
		m = protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), uint64(alias))
	}
	if datatype > 0 {
		m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), uint64(datatype))
	}
	m = protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), bits)
	s.b = protowire.AppendBytes(protowire.AppendTag(s.b, 2, protowire.BytesType), m)
	return s
}

func (s *spark) seq(n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(s.b, 3, protowire.VarintType), n)
}

const node = "spBv1.0/G/%/N"

func topicOf(message string) string { return strings.Replace(node, "%", message, 1) }

// M15: the type is the birth's, by alias and by name, whatever the data says.
func TestSparkplugTypeIsTheBirths(t *testing.T) {
	d := newSparkplug(t)
	d.AppendTopic(topicOf("NBIRTH"), new(spark).metric("x", 5, typeInt32, sparkInt, 1).seq(0))
	minus12 := uint64(math.MaxUint32 - 11)
	d.AppendTopic(topicOf("NDATA"), new(spark).metric("", 5, 0, sparkInt, minus12).seq(1))
	d.AppendTopic(topicOf("NDATA"), new(spark).metric("x", -1, 0, sparkInt, minus12).seq(2))
	d.AppendTopic(topicOf("NDATA"), new(spark).metric("x", 5, typeUInt32, sparkInt, minus12).seq(3))
	sameRows(t, sparkRows(d), `
		message="NBIRTH" group="G" node="N" metric="x" type="Int32" value_int=1 seq=0
		message="NDATA" group="G" node="N" metric="x" type="Int32" value_int=-12 seq=1
		message="NDATA" group="G" node="N" metric="x" type="Int32" value_int=-12 seq=2
		message="NDATA" group="G" node="N" metric="x" type="Int32" value_int=-12 seq=3`)
}

// M17: data before a birth is bad and the birth is asked for; so is a metric that
// the birth did not declare, and the others of its payload are rows.
func TestSparkplugAsksForBirths(t *testing.T) {
	d := newSparkplug(t)
	data := new(spark).metric("", 5, 0, sparkInt, 1).metric("", 6, 0, sparkInt, 2).seq(1)
	rows, bads := d.AppendTopic(topicOf("NDATA"), data)
	if rows != 0 || len(bads) != 1 || bads[0].Reason != ReasonNoBirth {
		t.Fatalf("%d rows, %v", rows, bads)
	}
	asks := d.Asks(1772359200000)
	if got := slices.Collect(maps.Keys(asks)); !slices.Equal(got, []string{topicOf("NCMD")}) {
		t.Fatalf("asked %q", got)
	}
	p, err := parseSparkplug(asks[topicOf("NCMD")])
	if err != nil || len(p.metrics) != 1 || p.metrics[0].name != rebirthMetric || p.metrics[0].datatype != typeBoolean || p.metrics[0].value.bits != 1 {
		t.Fatalf("the command is %+v, %v", p, err)
	}
	d.AppendTopic(topicOf("NBIRTH"), new(spark).metric("x", 5, typeInt32, sparkInt, 0).seq(0))
	sparkRows(d)
	rows, bads = d.AppendTopic(topicOf("NDATA"), data)
	if rows != 1 || len(bads) != 1 || bads[0].Reason != ReasonUnknownMetric || !strings.Contains(bads[0].Detail, "alias 6") || len(d.Asks(0)) != 1 {
		t.Fatalf("%d rows, %v", rows, bads)
	}
}

func TestSparkplugSequence(t *testing.T) {
	d := newSparkplug(t)
	d.AppendTopic(topicOf("NBIRTH"), new(spark).metric("x", 5, typeInt32, sparkInt, 0).seq(254))
	for _, seq := range []uint64{255, 0, 1, 1, 0, 2} { // over the edge, and sent again
		d.AppendTopic(topicOf("NDATA"), new(spark).metric("", 5, 0, sparkInt, seq).seq(seq))
	}
	if got := d.Counts(); len(got) > 0 || len(d.Asks(0)) > 0 {
		t.Fatalf("noticed %v", got)
	}
	d.AppendTopic(topicOf("NDATA"), new(spark).metric("", 5, 0, sparkInt, 5).seq(5))
	if got := d.Counts(); got["sparkplug_gaps"] != 1 || got["sparkplug_missing"] != 2 || len(d.Asks(0)) != 1 {
		t.Fatalf("noticed %v", got)
	}
}

// A death ends the birth that it belongs to, and no later one.
func TestSparkplugDeaths(t *testing.T) {
	birth := func(n uint64) []byte {
		return new(spark).metric("bdSeq", -1, typeInt64, sparkLong, n).metric("x", 5, typeInt32, sparkInt, 0).seq(0)
	}
	death := func(n uint64) []byte { return new(spark).metric("bdSeq", -1, typeInt64, sparkLong, n).b }
	data := new(spark).metric("", 5, 0, sparkInt, 1).seq(1)
	d := newSparkplug(t)
	d.AppendTopic(topicOf("NBIRTH"), birth(2))
	d.AppendTopic(topicOf("NDEATH"), death(1))
	if rows, bads := d.AppendTopic(topicOf("NDATA"), data); rows != 1 || len(bads) > 0 {
		t.Errorf("after the death of an older birth: %d rows, %v", rows, bads)
	}
	d.AppendTopic(topicOf("NDEATH"), death(2))
	if rows, bads := d.AppendTopic(topicOf("NDATA"), data); rows != 0 || len(bads) != 1 {
		t.Errorf("after the death: %d rows, %v", rows, bads)
	}
}

func TestSparkplugTopicsAndBytesThatAreNone(t *testing.T) {
	d := newSparkplug(t)
	for topic, reason := range map[string]string{
		"spBv1.0/G/NDATA": ReasonInvalidSparkplug, "spBv1.0/G/NOPE/N": ReasonInvalidSparkplug, "x/G/NDATA/N": ReasonInvalidSparkplug,
		"spBv1.0/G/DDATA/N": ReasonInvalidSparkplug, "spBv1.0/G/NDATA/N/D": ReasonInvalidSparkplug,
	} {
		if rows, bads := d.AppendTopic(topic, nil); rows != 0 || len(bads) != 1 || bads[0].Reason != reason {
			t.Errorf("%s: %d rows, %v", topic, rows, bads)
		}
	}
	for _, topic := range []string{"spBv1.0/STATE/h", "STATE/h", "spBv1.0/G/NCMD/N", "spBv1.0/G/DCMD/N/D"} {
		if rows, bads := d.AppendTopic(topic, []byte("ONLINE")); rows != 0 || len(bads) > 0 {
			t.Errorf("%s: %d rows, %v", topic, rows, bads)
		}
	}
	if n := d.Counts()["sparkplug_ignored"]; n != 4 {
		t.Errorf("ignored %d, want 4", n)
	}
	if rows, bads := d.AppendTopic(topicOf("NDATA"), []byte("plain text")); rows != 0 || len(bads) != 1 || bads[0].Reason != ReasonInvalidSparkplug {
		t.Errorf("%d rows, %v", rows, bads)
	}
	d.AppendTopic(topicOf("NBIRTH"), new(spark).metric("u", 1, typeUInt64, sparkLong, 1).metric("b", 2, typeBoolean, sparkBool, 1).seq(0))
	sparkRows(d)
	rows, bads := d.AppendTopic(topicOf("NDATA"), new(spark).metric("", 1, 0, sparkLong, math.MaxUint64).metric("", 2, 0, sparkLong, 1).seq(1))
	if rows != 0 || len(bads) != 2 || bads[0].Reason != ReasonOutOfRange || bads[1].Reason != ReasonMistyped {
		t.Errorf("%d rows, %v", rows, bads)
	}
}

func FuzzSparkplug(f *testing.F) {
	text, err := os.ReadFile("testdata/sparkplug/payloads.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if parts := strings.Fields(line); parts[0] != "#" {
			payload, err := hex.DecodeString(parts[2])
			if err != nil {
				f.Fatal(err)
			}
			f.Add(parts[1], payload)
		}
	}
	f.Add("spBv1.0/STATE/x", []byte("{}"))
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		d := newSparkplug(t)
		d.AppendTopic(topicOf("NBIRTH"), new(spark).metric("x", 5, typeInt32, sparkInt, 0).metric("temp", 1, typeString, sparkInt, 0).seq(0))
		before := d.Rows()
		rows, bads := d.AppendTopic(topic, payload)
		if d.Rows() != before+rows {
			t.Fatalf("says %d rows, has %d more", rows, d.Rows()-before)
		}
		for _, b := range bads {
			if b.Reason == "" || b.Detail == "" {
				t.Fatalf("bad without a reason: %+v", b)
			}
		}
		d.AppendTopic(topic, payload)
		n := d.Rows()
		for _, c := range d.Flush() {
			if c.Len() != n {
				t.Fatalf("a column of %d values in %d rows", c.Len(), n)
			}
			c.Release()
		}
	})
}

func TestRawAndText(t *testing.T) {
	var c Config
	c.Raw = &RawConfig{}
	c.Raw.SetDefaults()
	d, err := c.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if bad := d.Append([]byte{0xff, 0}); bad != nil || d.Rows() != 1 {
		t.Fatal(bad)
	}
	if bad := d.Append(make([]byte, 1<<20+1)); bad == nil || bad.Reason != ReasonTooLarge {
		t.Fatal(bad)
	}
	cols := d.Flush()
	if got := string(dataflow.AppendJSON(nil, cols[0], 0)); got != `"ff00"` || cols[0].Len() != 1 {
		t.Errorf("got %s", got)
	}
	cols[0].Release()
	c = Config{Text: &TextConfig{}}
	c.Text.SetDefaults()
	if d, err = c.New(nil); err != nil {
		t.Fatal(err)
	}
	if bad := d.Append([]byte("a\xc3(")); bad == nil || bad.Reason != ReasonInvalidUTF8 || bad.Detail != "byte 1: expected UTF-8, got 0xc3" {
		t.Fatal(bad)
	}
	if bad := d.Append([]byte("größe")); bad != nil {
		t.Fatal(bad)
	}
	cols = d.Flush()
	if got := string(dataflow.AppendJSON(nil, cols[0], 0)); got != `"größe"` || cols[0].Len() != 1 {
		t.Errorf("got %s", got)
	}
	cols[0].Release()
	c.Raw = &RawConfig{}
	if err := c.Check(); err == nil || err.Error() != "decode has the formats raw, text: only one is possible" {
		t.Error(err)
	}
}
