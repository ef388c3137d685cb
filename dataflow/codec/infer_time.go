package codec

import (
	"math"
	"regexp"
	"slices"
	"sort"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// TimeGuess is a column that may be the event time.
type TimeGuess struct {
	Column string
	// From and To are the first and the last time.
	From, To dataflow.Time
	// Disorder is by how much a record is older than one before it in its file, at
	// most; Usual holds for 99 of 100. Single records from the future, as of a wrong
	// clock, are left out: Ahead counts them.
	Disorder, Usual time.Duration
	Ahead           int
	// Nulls counts the records without it.
	Nulls int
}

// timeWatch keeps the times of a sample, by column.
type timeWatch struct {
	columns []int
	times   [][]dataflow.Time
	nulls   []int
	guess   []TimeGuess
	late    [][]time.Duration
}

func newTimeWatch(c JSONConfig) *timeWatch {
	w := &timeWatch{}
	for i, f := range c.Schema {
		if spec, err := dataflow.ParseType(f.Type); err == nil && spec.Type.ID() == arrow.TIMESTAMP {
			w.columns = append(w.columns, i)
			w.guess = append(w.guess, TimeGuess{Column: f.Name, From: math.MaxInt64, To: math.MinInt64})
		}
	}
	w.times, w.late = make([][]dataflow.Time, len(w.columns)), make([][]time.Duration, len(w.columns))
	return w
}

// rows takes a batch over.
func (w *timeWatch) rows(batch []arrow.Array) {
	for k, c := range w.columns {
		a := batch[c].(*array.Timestamp)
		for i := range a.Len() {
			if a.IsNull(i) {
				w.guess[k].Nulls++
				continue
			}
			w.times[k] = append(w.times[k], dataflow.Time(a.Value(i)))
		}
	}
	for _, a := range batch {
		a.Release()
	}
}

// next is how many records tell a jump of time from a wrong clock, and ahead how
// far a record must be beyond most of them to be called that.
const (
	next  = 8
	ahead = dataflow.Time(60 * 60 * microsPerSecond)
)

// nextFile looks at the times of the file that ended.
func (w *timeWatch) nextFile() {
	for k := range w.columns {
		times, g := w.times[k], &w.guess[k]
		reached := dataflow.Time(math.MinInt64)
		for i, t := range times {
			g.From, g.To = min(g.From, t), max(g.To, t)
			behind := time.Duration(0)
			if t < reached {
				behind = time.Duration(reached-t) * time.Microsecond
			}
			w.late[k] = append(w.late[k], behind)
			if after := slices.Sorted(slices.Values(times[i+1 : min(i+1+next, len(times))])); len(after) > 0 && t > reached && t-after[len(after)/2] > ahead {
				g.Ahead++
				continue
			}
			reached = max(reached, t)
		}
		w.times[k] = w.times[k][:0]
	}
}

var likelyTime = regexp.MustCompile(`(?i)^(ts|t|time|timestamp|event_?time|event_?ts|datetime|@timestamp)$`)

// guesses ranks the columns: by name, then those that are never null, then by
// order.
func (w *timeWatch) guesses(c JSONConfig) []TimeGuess {
	w.nextFile()
	var out []TimeGuess
	for k, g := range w.guess {
		late := w.late[k]
		if len(late) == 0 {
			continue
		}
		slices.Sort(late)
		g.Disorder, g.Usual = late[len(late)-1], late[(len(late)-1)*99/100]
		out = append(out, g)
	}
	rank := func(g TimeGuess) int {
		n := 0
		if !likelyTime.MatchString(g.Column) {
			n++
		}
		if g.Nulls > 0 {
			n += 2
		}
		return n
	}
	sort.SliceStable(out, func(i, j int) bool {
		if a, b := rank(out[i]), rank(out[j]); a != b {
			return a < b
		}
		return out[i].Usual < out[j].Usual
	})
	return out
}
