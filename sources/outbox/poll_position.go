package outbox

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"frazil/dataflow"
)

// pollSplit is the only split of an outbox that is polled.
const pollSplit dataflow.Split = "table"

// pollPosition is what was read of an outbox that is polled. Its text compares in the
// order of reading:
//
//	2/SEQUENCE/ROUND/UNREAD           SEQUENCE rows in ROUND whole rounds, in hexadecimal;
//	                                  UNREAD is what was not read, as ranges: of
//	                                  PostgreSQL transactions, of MySQL numbers of rows
//	2/SEQUENCE/ROUND/UNREAD/KEY/LATE  in the middle of a round, behind the row KEY (in the
//	                                  escapes of URLs); up to it LATE is what was not read
//
// Where the run is to end it is 2/end.
type pollPosition struct {
	seq, round uint64
	unread     spans
	part       bool
	key        string
	late       spans
}

func newPollPosition() pollPosition { return pollPosition{unread: allNumbers()} }

const pollEnd = "2/end"

func (p pollPosition) encode() dataflow.Position {
	b := fmt.Appendf(nil, "2/%016X/%016X/%s", p.seq, p.round, p.unread)
	if p.part {
		b = fmt.Appendf(b, "/%s/%s", url.QueryEscape(p.key), p.late)
	}
	return b
}

func parsePollPosition(text dataflow.Position) (p pollPosition, err error) {
	part := strings.Split(string(text), "/")
	fail := func(err error) (pollPosition, error) {
		return p, fmt.Errorf("position %.200q: expected 2/SEQUENCE/ROUND/UNREAD: %w", text, err)
	}
	if len(part) != 4 && len(part) != 6 || part[0] != "2" {
		return fail(fmt.Errorf("it has another form"))
	}
	for i, to := range []*uint64{&p.seq, &p.round} {
		if *to, err = strconv.ParseUint(part[i+1], 16, 64); err != nil {
			return fail(err)
		}
	}
	if p.unread, err = parseSpans(part[3]); err != nil {
		return fail(err)
	}
	if len(part) == 6 {
		p.part = true
		if p.key, err = url.QueryUnescape(part[4]); err != nil {
			return fail(err)
		}
		if p.late, err = parseSpans(part[5]); err != nil {
			return fail(err)
		}
	}
	return p, nil
}
