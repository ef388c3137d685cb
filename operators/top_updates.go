package operators

import (
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// A top over a changelog ranks the rows of the table that its input makes when it
// is folded by its key. Since a row that is taken away may bring back the one
// behind the last rank, all rows are kept.
//
// A step that forgets rows (see dataflow.Stream) may put a row in the place of one
// without taking that away. The old row may be of another group, unless "by" is
// part of the input's key: one task has all rows then.

// topUpdates is what a topShape has of an input of changes.
type topUpdates struct {
	id      []int // the columns of the input's key
	oneTask bool  // a row may take the place of one of any group
}

// topUpdatesExchange is the schema between the halves: the hash of the key, the
// key of the group, that of the row in the input, and the item (see topWire) that
// is put, nothing for a row that is taken away.
var topUpdatesExchange = arrow.NewSchema([]arrow.Field{
	{Name: groupHash, Type: arrow.PrimitiveTypes.Uint64},
	{Name: "_key", Type: dataflow.TypeBinary},
	{Name: "_id", Type: dataflow.TypeBinary},
	{Name: "_item", Type: dataflow.TypeBinary},
}, nil)

// topUpdatesBad is the port of bad rows: there are no late ones.
const topUpdatesBad = 1

// checkUpdates is checkBounds for an input of changes.
func (s *topShape) checkUpdates(in component.OperatorIn, cfg TopConfig) (problems component.Problems) {
	bad := func(path, format string, args ...any) {
		problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	input, name := in.Inputs[0], in.Names[0]
	s.updates = &topUpdates{}
	for _, k := range input.Key {
		s.updates.id = append(s.updates.id, dataflow.Column(input.Schema, k))
	}
	s.updates.oneTask = input.Forgets && slices.ContainsFunc(cfg.By, func(name string) bool { return !slices.Contains(input.Key, name) })
	if _, err := newKeyEncoder(input.Schema, s.updates.id); err != nil {
		bad("", "%s", err)
	}
	for path, set := range map[string]bool{"tumbling": cfg.Tumbling != "", "hopping": cfg.Hopping != nil, "cumulative": cfg.Cumulative != nil} {
		if set {
			bad(path, "%q gives changes, and a window gives its rows once: leave %s out for a changelog of the first rows, or ask step %q for final results only (a window's emit: final)", name, path, strings.SplitN(name, ".", 2)[0])
		}
	}
	if cfg.ExpireAfter != 0 {
		bad("expire_after", "%q gives changes: a row stays until it is taken away, so leave expire_after out", name)
	}
	return append(problems, s.checkChangelog(cfg)...)
}

// planUpdates plans a top whose input is a changelog.
func (s *topShape) planUpdates(in component.OperatorIn) component.OperatorPlan {
	keyText := s.by.keyText()
	if s.updates.oneTask {
		keyText = fmt.Sprintf("nothing, so one task has all rows: %q forgets rows, and one that comes again may be of another group", in.Names[0])
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out, Changelog: true, Key: s.changelogKey()}},
			dataflow.BadPort(),
		},
		Keyed: true, Exchange: topUpdatesExchange, RouteBy: groupHash, KeyText: keyText,
		State:       fmt.Sprintf("each row of the table that %q makes", in.Names[0]),
		Fingerprint: fmt.Sprintf("top updates/1 id %v one %t ", s.updates.id, s.updates.oneTask) + s.fingerprint(),
	}
}
