package codec

import (
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// SparkplugConfig makes a row of each metric of a Sparkplug B payload. The topic
// says of what: NAMESPACE/GROUP/TYPE/NODE[/DEVICE]. Births, data and deaths are
// rows; commands (NCMD, DCMD) and STATE are not. The columns are message (NBIRTH,
// NDATA, DBIRTH, DDATA, NDEATH, DDEATH), group, node, device, metric, type, of the
// values value_int, value_double, value_bool, value_string, value_bytes and
// value_time the one of its type, timestamp, seq, is_historical, is_transient and
// is_null.
type SparkplugConfig struct {
	// Namespace is the first level of the topics. Default: spBv1.0.
	Namespace string `yaml:"namespace"`
	// MaxRecord bounds the size of one payload. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *SparkplugConfig) SetDefaults() {
	*c = SparkplugConfig{Namespace: "spBv1.0", MaxRecord: 1 << 20}
}

// Check reports everything wrong with c, as component.Problems.
func (c *SparkplugConfig) Check() error {
	var ps component.Problems
	if c.Namespace == "" || strings.ContainsAny(c.Namespace, "/+#") {
		ps = append(ps, component.Problem{Path: "namespace", Msg: fmt.Sprintf("%q is no level of a topic", c.Namespace)})
	}
	if c.MaxRecord < 1 || c.MaxRecord > maxPayload {
		ps = append(ps, component.Problem{Path: "max_record", Msg: fmt.Sprintf("%s is out of range: expected 1B to %s", c.MaxRecord, component.Bytes(maxPayload))})
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Reasons of bad records of Sparkplug.
const (
	// ReasonInvalidSparkplug: bytes that are no payload of Sparkplug B.
	ReasonInvalidSparkplug = "invalid_sparkplug"
	// ReasonNoBirth: data of a node or device whose birth is not known.
	ReasonNoBirth = "no_birth"
	// ReasonUnknownMetric: a metric that the birth did not declare.
	ReasonUnknownMetric = "unknown_metric"
)

// Columns of the rows, in their order.
const (
	sparkMessage = iota
	sparkGroup
	sparkNode
	sparkDevice
	sparkName
	sparkType
	sparkValueInt
	sparkValueDouble
	sparkValueBool
	sparkValueString
	sparkValueBytes
	sparkValueTime
	sparkTimestamp
	sparkSeq
	sparkHistorical
	sparkTransient
	sparkNull
)

var sparkplugSchema = arrow.NewSchema([]arrow.Field{
	{Name: "message", Type: dataflow.TypeString},
	{Name: "group", Type: dataflow.TypeString},
	{Name: "node", Type: dataflow.TypeString},
	{Name: "device", Type: dataflow.TypeString, Nullable: true},
	{Name: "metric", Type: dataflow.TypeString, Nullable: true},
	{Name: "type", Type: dataflow.TypeString, Nullable: true},
	{Name: "value_int", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "value_double", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "value_bool", Type: dataflow.TypeBool, Nullable: true},
	{Name: "value_string", Type: dataflow.TypeString, Nullable: true},
	{Name: "value_bytes", Type: dataflow.TypeBinary, Nullable: true},
	{Name: "value_time", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "timestamp", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "seq", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "is_historical", Type: dataflow.TypeBool},
	{Name: "is_transient", Type: dataflow.TypeBool},
	{Name: "is_null", Type: dataflow.TypeBool},
}, nil)

// ArrowSchema returns the columns.
func (c *SparkplugConfig) ArrowSchema() (*arrow.Schema, error) { return sparkplugSchema, c.Check() }

func (c *SparkplugConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &Sparkplug{cfg: *c, b: array.NewRecordBuilder(allocator(alloc), sparkplugSchema), nodes: map[string]*sparkNodeState{}}, nil
}

// Data types by their numbers.
var sparkTypes = []string{"Unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double",
	"Boolean", "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template", "PropertySet", "PropertySetList",
	"Int8Array", "Int16Array", "Int32Array", "Int64Array", "UInt8Array", "UInt16Array", "UInt32Array", "UInt64Array", "FloatArray",
	"DoubleArray", "BooleanArray", "StringArray", "DateTimeArray"}

const (
	typeInt8     = 1
	typeInt16    = 2
	typeInt32    = 3
	typeInt64    = 4
	typeUInt8    = 5
	typeUInt16   = 6
	typeUInt32   = 7
	typeUInt64   = 8
	typeFloat    = 9
	typeDouble   = 10
	typeBoolean  = 11
	typeString   = 12
	typeDateTime = 13
	typeText     = 14
	typeUUID     = 15
)

// Sparkplug decodes payloads of Sparkplug B. What a metric means is said by the
// births, which it remembers by node and device. One goroutine uses it.
type Sparkplug struct {
	cfg    SparkplugConfig
	b      *array.RecordBuilder
	rows   int
	bytes  int
	nodes  map[string]*sparkNodeState
	counts map[string]int64
	asks   []string // topics of commands
}

// sparkNodeState is what is known of a node.
type sparkNodeState struct {
	born bool
	seq  uint8
	// bdSeq is the number of the birth, which its death repeats.
	bdSeq   *uint64
	metrics *sparkMetrics
	devices map[string]*sparkMetrics
}

// sparkMetrics are those that a birth declared.
type sparkMetrics struct {
	byAlias map[uint64]sparkDef
	byName  map[string]sparkDef
}

type sparkDef struct {
	name     string
	datatype uint32
}

// Schema implements dataflow.Decoder.
func (d *Sparkplug) Schema() *arrow.Schema { return sparkplugSchema }

// Append implements dataflow.Decoder: without a topic nothing can be decoded.
func (d *Sparkplug) Append([]byte) *dataflow.Bad {
	return &dataflow.Bad{Reason: ReasonInvalidSparkplug, Detail: "a Sparkplug payload cannot be read without its topic"}
}

// Rows implements dataflow.Decoder.
func (d *Sparkplug) Rows() int { return d.rows }

// Bytes implements dataflow.Decoder.
func (d *Sparkplug) Bytes() int { return d.bytes }

// Flush implements dataflow.Decoder.
func (d *Sparkplug) Flush() []arrow.Array {
	d.rows, d.bytes = 0, 0
	rec := d.b.NewRecordBatch()
	defer rec.Release()
	out := slices.Clone(rec.Columns())
	for _, a := range out {
		a.Retain()
	}
	return out
}

// Counts are what was noticed since the last call, by name: sparkplug_gaps (sequence
// numbers that were left out), sparkplug_ignored (commands and states).
func (d *Sparkplug) Counts() map[string]int64 {
	out := d.counts
	d.counts = nil
	return out
}

func (d *Sparkplug) count(name string, n int64) {
	if d.counts == nil {
		d.counts = map[string]int64{}
	}
	d.counts[name] += n
}

// Asks returns messages to send, since the last call: to nodes whose birth is not
// known, or that left a sequence number out, the command to give birth once more.
// now is in milliseconds.
func (d *Sparkplug) Asks(now int64) map[string][]byte {
	if len(d.asks) == 0 {
		return nil
	}
	out := map[string][]byte{}
	for _, topic := range d.asks {
		out[topic] = rebirthCommand(uint64(now))
	}
	d.asks = d.asks[:0]
	return out
}

// sparkTopic is what a topic says.
type sparkTopic struct {
	message, group, node, device string
}

// topic reads a topic; ok is false for one that is none of Sparkplug's data.
func (d *Sparkplug) topic(s string) (t sparkTopic, ignored, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) >= 2 && (parts[0] == d.cfg.Namespace && parts[1] == "STATE" || parts[0] == "STATE") {
		return t, true, true
	}
	if len(parts) < 4 || len(parts) > 5 || parts[0] != d.cfg.Namespace {
		return t, false, false
	}
	t = sparkTopic{message: parts[2], group: parts[1], node: parts[3]}
	if len(parts) == 5 {
		t.device = parts[4]
	}
	switch t.message {
	case "NBIRTH", "NDATA", "NDEATH":
		return t, false, len(parts) == 4
	case "DBIRTH", "DDATA", "DDEATH":
		return t, false, len(parts) == 5
	case "NCMD", "DCMD":
		return t, true, true
	default:
		return t, false, false
	}
}

// Learns says whether the payloads of a topic teach the decoder what later ones
// mean: births and deaths. Who decodes them again later knows as much.
func (d *Sparkplug) Learns(topic string) bool {
	t, ignored, ok := d.topic(topic)
	return ok && !ignored && t.message != "NDATA" && t.message != "DDATA"
}

// AppendTopic implements dataflow.TopicDecoder.
func (d *Sparkplug) AppendTopic(topic string, payload []byte) (int, []dataflow.Bad) {
	one := func(reason, format string, args ...any) (int, []dataflow.Bad) {
		return 0, []dataflow.Bad{{Reason: reason, Detail: topic + ": " + fmt.Sprintf(format, args...)}}
	}
	t, ignored, ok := d.topic(topic)
	switch {
	case ignored:
		d.count("sparkplug_ignored", 1)
		return 0, nil
	case !ok:
		return one(ReasonInvalidSparkplug, "expected a topic %s/GROUP/TYPE/NODE[/DEVICE]", d.cfg.Namespace)
	case len(payload) > int(d.cfg.MaxRecord):
		return one(ReasonTooLarge, "payload of %d bytes, expected at most max_record = %s", len(payload), d.cfg.MaxRecord)
	}
	p, err := parseSparkplug(payload)
	if err != nil {
		return one(ReasonInvalidSparkplug, "%v", err)
	}
	key := t.group + "/" + t.node
	n := d.nodes[key]
	if n == nil {
		n = &sparkNodeState{devices: map[string]*sparkMetrics{}}
		d.nodes[key] = n
	}
	d.sequence(t, n, p)
	var metrics *sparkMetrics
	switch t.message {
	case "NBIRTH":
		n.born, n.metrics, n.devices, n.bdSeq = true, learn(p), map[string]*sparkMetrics{}, bdSeq(p)
		metrics = n.metrics
	case "DBIRTH":
		metrics = learn(p)
		n.devices[t.device] = metrics
	case "NDEATH":
		return d.death(t, n, p)
	case "DDEATH":
		metrics = n.devices[t.device]
		delete(n.devices, t.device)
		if len(p.metrics) == 0 {
			d.row(t, p, nil, sparkDef{})
			return 1, nil
		}
	case "NDATA":
		metrics = n.metrics
	case "DDATA":
		metrics = n.devices[t.device]
	}
	if metrics == nil {
		d.ask(t)
		return one(ReasonNoBirth, "%d metrics of a %s whose birth is not known", len(p.metrics), kindOf(t))
	}
	return d.append(topic, t, p, metrics)
}

func kindOf(t sparkTopic) string {
	if t.device != "" {
		return "device"
	}
	return "node"
}

// death ends a birth, unless it belongs to an older one.
func (d *Sparkplug) death(t sparkTopic, n *sparkNodeState, p sparkPayload) (int, []dataflow.Bad) {
	if at := bdSeq(p); at == nil || n.bdSeq == nil || *at == *n.bdSeq {
		delete(d.nodes, t.group+"/"+t.node)
	}
	if len(p.metrics) == 0 {
		d.row(t, p, nil, sparkDef{})
		return 1, nil
	}
	for i := range p.metrics {
		m := &p.metrics[i]
		def := sparkDef{name: m.name, datatype: m.datatype}
		if def.datatype == 0 {
			def.datatype = typeInt64
		}
		d.row(t, p, m, def)
	}
	return len(p.metrics), nil
}

// bdSeq is the number that ties a death to its birth.
func bdSeq(p sparkPayload) *uint64 {
	for i := range p.metrics {
		if p.metrics[i].name == "bdSeq" {
			v := p.metrics[i].value.bits
			return &v
		}
	}
	return nil
}

// sequence looks at the sequence number: each message of a node but its death has
// the next one, modulo 256. One that came before, sent again, is no gap.
func (d *Sparkplug) sequence(t sparkTopic, n *sparkNodeState, p sparkPayload) {
	if p.seq == nil || t.message == "NDEATH" {
		return
	}
	seq := uint8(*p.seq)
	if t.message == "NBIRTH" || !n.born {
		n.seq = seq
		return
	}
	switch ahead := seq - n.seq; {
	case ahead == 1:
		n.seq = seq
	case ahead > 1 && ahead < 128:
		d.count("sparkplug_gaps", 1)
		d.count("sparkplug_missing", int64(ahead)-1)
		d.ask(t)
		n.seq = seq
	}
}

// maxAsks bounds what is asked at once.
const maxAsks = 1000

func (d *Sparkplug) ask(t sparkTopic) {
	topic := d.cfg.Namespace + "/" + t.group + "/NCMD/" + t.node
	if len(d.asks) < maxAsks && !slices.Contains(d.asks, topic) {
		d.asks = append(d.asks, topic)
	}
}

// learn is what a birth declares.
func learn(p sparkPayload) *sparkMetrics {
	out := &sparkMetrics{byAlias: map[uint64]sparkDef{}, byName: map[string]sparkDef{}}
	for _, m := range p.metrics {
		if !m.hasName {
			continue
		}
		def := sparkDef{m.name, m.datatype}
		out.byName[m.name] = def
		if m.alias != nil {
			out.byAlias[*m.alias] = def
		}
	}
	return out
}

// of finds what a metric means: the type is the birth's, also where the metric
// repeats its name.
func (s *sparkMetrics) of(m *sparkMetric) (sparkDef, bool) {
	var def sparkDef
	ok := false
	if m.hasName && m.name != "" {
		def, ok = s.byName[m.name]
	}
	if !ok && m.alias != nil {
		def, ok = s.byAlias[*m.alias]
	}
	return def, ok && def.datatype != 0
}

// append makes rows of the metrics; those that cannot be read are told in one bad
// record for each reason.
func (d *Sparkplug) append(topic string, t sparkTopic, p sparkPayload, metrics *sparkMetrics) (int, []dataflow.Bad) {
	rows := 0
	var bads []dataflow.Bad
	wrong := func(reason, detail string) {
		for i := range bads {
			if bads[i].Reason == reason {
				if len(bads[i].Detail) < 500 {
					bads[i].Detail += "; " + detail
				}
				return
			}
		}
		bads = append(bads, dataflow.Bad{Reason: reason, Detail: topic + ": " + detail})
	}
	for i := range p.metrics {
		m := &p.metrics[i]
		def, ok := metrics.of(m)
		if !ok {
			wrong(ReasonUnknownMetric, fmt.Sprintf("metric %d (%s) has no type by the birth", i, m.label()))
			d.ask(t)
			continue
		}
		if reason, detail := m.check(def); reason != "" {
			wrong(reason, fmt.Sprintf("metric %d (%s), %s: %s", i, m.label(), typeName(def.datatype), detail))
			continue
		}
		d.row(t, p, m, def)
		rows++
	}
	return rows, bads
}

var _ dataflow.TopicDecoder = (*Sparkplug)(nil)
