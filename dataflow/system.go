package dataflow

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// System columns stand behind the user's columns, in this order where they are
// present. Their prefix is reserved; a sink never writes one.
const (
	// SysTime: int64, the row's event time, a Time.
	SysTime = "_time"
	// SysStamp: int64, the row's stamp: the watermark that its own split had
	// just before it, a Time.
	SysStamp = "_watermark"
	// SysSplit: int32, an index into Env.Splits.
	SysSplit = "_split"
	// SysPos: int64, grows along a split; equal positions are equal rows.
	SysPos = "_pos"
	// SysElement: int32, of a row that unnest made the number of its element from 1, and
	// 0 where there was none. It stands behind SysPos and tells rows of one position
	// apart. A second unnest adds "_element2", and so on; see ElementField.
	SysElement = "_element"
	// SysArrived: int64, a Time: when the record was received, if something
	// durable says so. Set by sources, taken off by the engine.
	SysArrived = "_arrived"
	// SysPrefix is reserved for system columns.
	SysPrefix = "_"
)

// SystemFields are the system columns of a row that came from a source, in
// order. timed is false for a source without event time: SysTime and SysStamp
// are then absent.
func SystemFields(timed bool) []arrow.Field {
	origin := []arrow.Field{{Name: SysSplit, Type: TypeInt32}, {Name: SysPos, Type: TypeInt64}}
	if !timed {
		return origin
	}
	return append(TimeFields(), origin...)
}

// TimeFields are the system columns of a row that an operator created: it has
// an event time and a stamp, but no origin.
func TimeFields() []arrow.Field {
	return []arrow.Field{{Name: SysTime, Type: TypeInt64}, {Name: SysStamp, Type: TypeInt64}}
}

// IsSystem says whether name is a system column's.
func IsSystem(name string) bool { return strings.HasPrefix(name, SysPrefix) }

// UserFields returns the fields of s that are no system columns.
func UserFields(s *arrow.Schema) []arrow.Field {
	fields := s.Fields()
	for i, f := range fields {
		if IsSystem(f.Name) {
			return fields[:i:i]
		}
	}
	return fields
}

// SysFields returns the system columns of s.
func SysFields(s *arrow.Schema) []arrow.Field { return s.Fields()[len(UserFields(s)):] }

// Column returns the index of the column name in s, or -1.
func Column(s *arrow.Schema, name string) int {
	if ix := s.FieldIndices(name); len(ix) > 0 {
		return ix[0]
	}
	return -1
}

// ElementField is the field that an unnest of rows of s adds behind the system columns:
// SysElement, or the next one.
func ElementField(s *arrow.Schema) arrow.Field {
	name := SysElement
	if n := len(ElementColumns(s)); n > 0 {
		name += strconv.Itoa(n + 1)
	}
	return arrow.Field{Name: name, Type: TypeInt32}
}

// ElementColumns are the indexes of SysElement and its successors in s, the outermost
// first; nil if no unnest stands before.
func ElementColumns(s *arrow.Schema) []int {
	var out []int
	for i, f := range s.Fields() {
		if strings.HasPrefix(f.Name, SysElement) {
			out = append(out, i)
		}
	}
	return out
}

// Timed says whether rows of s carry an event time and a stamp.
func Timed(s *arrow.Schema) bool { return Column(s, SysStamp) >= 0 }

// Stream is what flows out of one port, as known before anything runs.
type Stream struct {
	// Schema: the user's columns, then system columns.
	Schema *arrow.Schema
	// Changelog: rows are changes (see Op) of a table with the key Key, not facts;
	// the schema ends with SysOp.
	Changelog bool
	// Key names the columns that identify a row of a changelog; none: the table
	// has one row.
	Key []string
	// Forgets: the steps of a changelog forget rows that have been quiet for long.
	// An OpInsert may then take the place of a row that is still in the table, and
	// an OpDelete says by its key alone which row goes, if there is one.
	Forgets bool
}

// Names of ports that many components have.
const (
	PortOut  = "" // the main output, always index 0
	PortLate = "late"
	PortBad  = "bad"
)

// Port is one output of a step.
type Port struct {
	Name   string
	Stream Stream
}
