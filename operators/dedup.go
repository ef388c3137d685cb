package operators

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// DedupConfig configures dedup.
type DedupConfig struct {
	// Key names the columns that make a row the same as another. A null is a
	// value, equal to null.
	Key []string `yaml:"key,required"`
	// Within is how far two rows of one key may lie apart in event time, in
	// either direction, and still be copies of each other. It bounds the state:
	// a key is kept until the watermark has passed its row by twice this length.
	// A row that is older than its stamp less this length leaves by the port
	// late, since its copies may have been forgotten.
	Within component.Duration `yaml:"within,required"`
	// Order is which copy comes first. arrival (default): the one that arrives
	// first; rows pass at once. event: the one with the lowest stamp, then split,
	// then position; rows wait until the watermark has passed their stamp, and
	// the result does not depend on how splits interleave.
	Order string `yaml:"order" oneof:"arrival,event"`
	// Keep is which row of a key stays. first (default): the first, as order says;
	// the others are gone. last: the one with the greatest event time, then split,
	// then position; the step then gives a changelog with the key as its key, whose
	// row is replaced when a later one comes.
	Keep string `yaml:"keep" oneof:"first,last"`
}

const (
	keepFirst = "first"
	keepLast  = "last"
)

const (
	orderArrival = "arrival"
	orderEvent   = "event"
)

// Ports of dedup.
const (
	dedupOut  = 0
	dedupLate = 1
)

// Columns between the halves of dedup: the key's hash.
const (
	dedupHi = "_key_hi"
	dedupLo = "_key_lo"
)

func init() {
	component.RegisterOperator(component.Operator[DedupConfig]{
		Name:    "dedup",
		Summary: "Keeps the first, or the last, of several rows with the same key.",
		Doc: `A row is a duplicate if a row of its key that passed earlier lies within the
bound in event time. Duplicates are counted and dropped.

Which copy stays: with order: arrival, the default, the one that arrives first;
a row passes at once, and rows keep the order in which they came. If copies of a
key may come from several splits, which of them stays depends on which split was
read first, and the step is not replayable. With order: event rows are taken in
the order of stamp, split and position; a row waits until the watermark is
greater than its stamp.

Late rows: a row older than its stamp less "within" leaves by the port late, with
the columns watermark (its stamp) and lateness (how many microseconds it is
older than that) behind its own.

With keep: last the step gives a changelog: at each checkpoint, and at the end of
the input, the last row of every key for which a later one has come, as an insert
or as update_before and update_after. All copies count, however far apart. Rows are
counted as absorbed. What is kept is the row of each key, until the watermark has
passed it by twice "within"; it stays in the table then, and the next row of the key
is an insert in its place.

State with keep: first: a key stays until the watermark has passed its row's event time by twice
"within", so that forgetting it never decides. In memory a key takes 32 to 96
bytes, on disk 24; the columns of the row are not kept. Keys that have no room in
the step's share of state.memory are kept on disk alone, with 2 bytes each in
memory: new keys hardly notice, a copy of such a key costs a read. Keys are compared by a
hash of 128 bits.`,
		Default: func() DedupConfig { return DedupConfig{Order: orderArrival, Keep: keepFirst} },
		Plan:    planDedup,
		New: func(ctx context.Context, env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
			if cfg.Keep == keepLast {
				return newDedupLast(env, in, cfg)
			}
			return newDedup(ctx, env, in, cfg)
		},
		NewBefore: func(ctx context.Context, env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
			if cfg.Keep == keepLast {
				return newDedupLastBefore(env, in, cfg)
			}
			return newDedupBefore(ctx, env, in, cfg)
		},
	})
}

func planDedup(in component.OperatorIn, cfg DedupConfig) (component.OperatorPlan, error) {
	schema := in.Inputs[0].Schema
	var bad component.Problems
	if !dataflow.Timed(schema) {
		bad = append(bad, component.Problem{Msg: fmt.Sprintf("dedup compares event times, but the rows of %q have none: give its source an event_time block", in.Names[0])})
	}
	if cfg.Within <= 0 {
		bad = append(bad, component.Problem{Path: "within", Msg: "the bound must be above 0: it is how far copies lie apart, as 1h, and what bounds the state"})
	}
	cols, keyProblems := dedupKeyColumns(schema, cfg.Key)
	bad = append(bad, keyProblems...)
	if len(keyProblems) == 0 {
		if _, err := newKeyEncoder(schema, cols); err != nil {
			bad = append(bad, component.Problem{Path: "key", Msg: err.Error()})
		}
	}
	for _, added := range []string{"watermark", "lateness"} {
		if dataflow.Column(schema, added) >= 0 {
			bad = append(bad, component.Problem{Msg: fmt.Sprintf("the input has a column %q, which the port late adds: rename it first", added)})
		}
	}
	if cfg.Keep == keepLast && cfg.Order == orderEvent {
		bad = append(bad, component.Problem{Path: "order", Msg: "the last row is that with the greatest event time, in whatever order rows come: leave it out"})
	}
	if len(bad) > 0 {
		return component.OperatorPlan{}, bad
	}
	if cfg.Keep == keepLast {
		return planDedupLast(in, cfg)
	}
	plan := component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: schema}},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: dedupLateSchema(schema)}},
		},
		Keyed:       true,
		Exchange:    dedupExchange(schema),
		RouteBy:     dedupHi,
		KeyText:     strings.Join(cfg.Key, ", "),
		State:       fmt.Sprintf("one entry per passed row, until the watermark is %s after it (twice within)", 2*cfg.Within),
		Spills:      "keys",
		Fingerprint: dedupFingerprint(schema, cols, cfg),
	}
	if cfg.Order == orderEvent {
		plan.State += "; and the rows that wait for the watermark to pass their stamp"
	} else {
		plan.NotReplayable = "copies of a key in several splits are taken in the order of arrival; use order: event"
		plan.ByOrder = true
	}
	return plan, nil
}

// dedupKeyColumns resolves the key's columns.
func dedupKeyColumns(schema *arrow.Schema, names []string) ([]int, component.Problems) {
	var known []string
	for _, f := range dataflow.UserFields(schema) {
		known = append(known, f.Name)
	}
	var cols []int
	var bad component.Problems
	if len(names) == 0 {
		bad = append(bad, component.Problem{Path: "key", Msg: "name at least one column"})
	}
	seen := map[string]bool{}
	for i, name := range names {
		c := dataflow.Column(schema, name)
		path := "key[" + strconv.Itoa(i) + "]"
		switch {
		case c < 0 || c >= len(known):
			bad = append(bad, component.Problem{Path: path, Msg: fmt.Sprintf("unknown column %q%s; the input has %s", name, component.DidYouMean(name, known), strings.Join(known, ", "))})
		case seen[name]:
			bad = append(bad, component.Problem{Path: path, Msg: fmt.Sprintf("column %q is named twice", name)})
		}
		seen[name] = true
		cols = append(cols, c)
	}
	return cols, bad
}

func dedupExchange(schema *arrow.Schema) *arrow.Schema {
	hash := arrow.PrimitiveTypes.Uint64
	return arrow.NewSchema(append(append([]arrow.Field{}, schema.Fields()...), arrow.Field{Name: dedupHi, Type: hash}, arrow.Field{Name: dedupLo, Type: hash}), nil)
}

func dedupLateSchema(schema *arrow.Schema) *arrow.Schema {
	fields := append([]arrow.Field{}, dataflow.UserFields(schema)...)
	fields = append(fields,
		arrow.Field{Name: "watermark", Type: dataflow.TypeTimestampTZ},
		arrow.Field{Name: "lateness", Type: dataflow.TypeInt64})
	return arrow.NewSchema(append(fields, dataflow.SysFields(schema)...), nil)
}

// dedupFingerprint names what the state depends on: keys and their types, the
// bound (a longer one would need keys that were forgotten) and, since waiting
// rows are kept whole, with order: event all columns.
func dedupFingerprint(schema *arrow.Schema, key []int, cfg DedupConfig) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dedup 1 within=%s order=%s", cfg.Within, cfg.Order)
	write := func(f arrow.Field) { fmt.Fprintf(&b, " %s:%s", f.Name, dataflow.TypeName(f.Type)) }
	for _, c := range key {
		write(schema.Field(c))
	}
	if cfg.Order == orderEvent {
		b.WriteString(" rows")
		for _, f := range schema.Fields() {
			write(f)
		}
	}
	return b.String()
}
