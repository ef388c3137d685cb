package codec

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/valyala/fastjson"
)

// Sample is some documents of a source, to propose a decode block for it. It is
// for one goroutine.
type Sample struct {
	docs [][]byte
	// starts are the indexes in docs where a further file begins.
	starts  []int
	root    *shape
	parser  fastjson.Parser
	depth   int
	largest int
	// other counts documents that are no objects.
	other int
	// unreadable counts records that are no JSON, by reason; first is an example.
	unreadable map[string]int
	first      string
}

// NewSample returns an empty one.
func NewSample() *Sample {
	return &Sample{root: &shape{}, unreadable: map[string]int{}}
}

// NextFile says that what follows comes from another split: order in time is
// looked at within one only.
func (s *Sample) NextFile() { s.starts = append(s.starts, len(s.docs)) }

// Rows counts the records so far, unreadable ones included.
func (s *Sample) Rows() int {
	n := len(s.docs)
	for _, k := range s.unreadable {
		n += k
	}
	return n
}

// Add looks at one record, which it keeps a copy of.
func (s *Sample) Add(doc []byte) {
	if at, f := validate(doc, maxDepth); f != fine {
		bad := (&JSON{}).unreadable(doc, at, f)
		s.unreadableRecord(bad.Reason, bad.Detail)
		return
	}
	v, err := s.parser.ParseBytes(doc)
	if err != nil {
		s.unreadableRecord(ReasonInvalidJSON, err.Error())
		return
	}
	s.docs = append(s.docs, slices.Clone(doc))
	s.largest = max(s.largest, len(doc))
	s.depth = max(s.depth, depthOf(v))
	if v.Type() != fastjson.TypeObject {
		s.other++
		return
	}
	s.root.add(v)
}

func (s *Sample) unreadableRecord(reason, detail string) {
	if len(s.unreadable) == 0 {
		s.first = fmt.Sprintf("record %d: %s: %s", len(s.docs)+1, reason, detail)
	}
	s.unreadable[reason]++
}

func depthOf(v *fastjson.Value) int {
	deepest := 0
	switch v.Type() {
	case fastjson.TypeObject:
		v.GetObject().Visit(func(_ []byte, x *fastjson.Value) { deepest = max(deepest, depthOf(x)) })
		return deepest + 1
	case fastjson.TypeArray:
		for _, x := range v.GetArray() {
			deepest = max(deepest, depthOf(x))
		}
		return deepest + 1
	}
	return 0
}

// Proposal is a decode block that takes every readable record of a sample.
type Proposal struct {
	// Config is the block.
	Config JSONConfig
	// Notes say something about columns, by name: nulls, conflicts, guesses.
	Notes map[string]string
	// Remarks are about the whole.
	Remarks []string
	// Times are the columns that may be the event time, the likeliest first.
	Times []TimeGuess
	// Rows counts the records, Refused those that the block refuses.
	Rows, Refused int
}

// maxColumns bounds how many columns are proposed; documents with more different
// fields use names as data.
const maxColumns = 200

// Propose looks at all of the sample. It fails where no record can be read.
func (s *Sample) Propose() (*Proposal, error) {
	if len(s.docs) == 0 {
		if s.first != "" {
			return nil, fmt.Errorf("no record is a JSON document; %s", s.first)
		}
		return nil, fmt.Errorf("the sample has no record")
	}
	p := &Proposal{Notes: map[string]string{}, Rows: s.Rows()}
	s.columns(p)
	if s.depth > DefaultJSONConfig().Depth {
		p.Config.Depth = s.depth
	}
	if s.largest > int(DefaultJSONConfig().MaxRecord) {
		mib := (s.largest + 1<<20 - 1) >> 20
		p.Config.MaxRecord = component.Bytes(mib << 20)
	}
	if s.other > 0 || len(p.Config.Schema) == 0 {
		p.Config.Whole = freeName("document", p.Config.Schema)
		p.Config.Required = nil
		p.Remarks = append(p.Remarks, fmt.Sprintf("%d records are no objects: column %q keeps every document as it is", s.other, p.Config.Whole))
	}
	if n := p.Rows - len(s.docs); n > 0 {
		p.Remarks = append(p.Remarks, fmt.Sprintf("%d records cannot be read, the first is %s", n, s.first))
	}
	if err := s.settle(p); err != nil {
		return nil, err
	}
	return p, nil
}

// columns decides the types.
func (s *Sample) columns(p *Proposal) {
	var left []string
	names := s.root.order
	if len(names) > maxColumns {
		names = slices.Clone(names)
		sort.SliceStable(names, func(i, j int) bool { return s.root.fields[names[i]].seen > s.root.fields[names[j]].seen })
		p.Remarks = append(p.Remarks, fmt.Sprintf("%d different fields: only the %d most frequent ones are here", len(names), maxColumns))
		names = names[:maxColumns]
	}
	for _, name := range names {
		if name == "" || dataflow.IsSystem(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			left = append(left, fmt.Sprintf("%q", name))
			continue
		}
		f := s.root.fields[name]
		typ, notes := f.decide(name, 0)
		missing := s.root.objects - f.seen + f.nulls
		if missing > 0 {
			notes = append(notes, fmt.Sprintf("null or missing in %d", missing))
		} else if s.other == 0 {
			p.Config.Required = append(p.Config.Required, name)
		}
		p.Config.Schema = append(p.Config.Schema, component.NamedType{Name: name, Type: typ})
		if len(notes) > 0 {
			p.Notes[name] = strings.Join(notes, "; ")
		}
	}
	if len(left) > 0 {
		p.Remarks = append(p.Remarks, "left out, since no column can have such a name: "+strings.Join(left, ", "))
	}
}

func freeName(name string, taken component.NamedTypes) string {
	for i := 1; ; i++ {
		try := name
		if i > 1 {
			try = fmt.Sprintf("%s%d", name, i)
		}
		if !slices.ContainsFunc(taken, func(t component.NamedType) bool { return t.Name == try }) {
			return try
		}
	}
}

// settle decodes the sample with the proposal. A column that refuses a record
// becomes json, which takes anything, and it starts again.
func (s *Sample) settle(p *Proposal) error {
	for {
		guilty, err := s.try(p)
		if err != nil {
			return err
		}
		if guilty < 0 {
			return nil
		}
		c := &p.Config.Schema[guilty]
		p.Notes[c.Name] = strings.TrimPrefix(p.Notes[c.Name]+"; ", "; ") + "not every value is " + c.Type
		c.Type = "json"
	}
}

// try decodes all records, and returns a column that refuses one, -1 without.
func (s *Sample) try(p *Proposal) (guilty int, err error) {
	d, err := NewJSON(p.Config, memory.DefaultAllocator)
	if err != nil {
		return 0, err
	}
	p.Refused = p.Rows - len(s.docs)
	watch := newTimeWatch(p.Config)
	starts := s.starts
	for i, doc := range s.docs {
		if len(starts) > 0 && i == starts[0] || d.Rows() == 4096 {
			watch.rows(d.Flush())
		}
		for len(starts) > 0 && i == starts[0] {
			watch.nextFile()
			starts = starts[1:]
		}
		if d.Append(doc) == nil {
			continue
		}
		for c, col := range p.Config.Schema {
			if col.Type != "json" && refuses(p.Config, col, doc) {
				return c, nil
			}
		}
		p.Refused++
	}
	watch.rows(d.Flush())
	p.Times = watch.guesses(p.Config)
	return -1, nil
}

// refuses says whether the record is bad because of one column's type.
func refuses(c JSONConfig, col component.NamedType, doc []byte) bool {
	c.Schema, c.Required, c.Whole = component.NamedTypes{col}, nil, ""
	d, err := NewJSON(c, memory.DefaultAllocator)
	if err != nil {
		return true
	}
	return d.Append(doc) != nil
}
