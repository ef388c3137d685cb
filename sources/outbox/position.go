package outbox

import (
	"fmt"
	"strconv"
	"strings"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
)

// logSplit is the only split of an outbox that is read by replication.
const logSplit dataflow.Split = "log"

// position is how far the log was read. Its text compares in the order of the log:
//
//	0/                          before the rows that are there at the first start
//	1/LSN/ROW/SEQUENCE          in hexadecimal: transactions that are committed before
//	                            LSN, and of the one that is committed there ROW rows;
//	                            SEQUENCE rows in all
type position struct {
	streaming bool
	lsn       pglogrepl.LSN
	row       uint64
	seq       uint64
}

func (p position) encode() dataflow.Position {
	if !p.streaming {
		return dataflow.Position("0/")
	}
	return fmt.Appendf(nil, "1/%016X/%08X/%016X", uint64(p.lsn), p.row, p.seq)
}

func parsePosition(text dataflow.Position) (p position, err error) {
	if string(text) == "0/" {
		return p, nil
	}
	part := strings.Split(string(text), "/")
	fail := fmt.Errorf("position %q: expected 0/ or 1/LSN/ROW/SEQUENCE", text)
	if len(part) != 4 || part[0] != "1" || len(part[1]) != 16 || len(part[2]) != 8 || len(part[3]) != 16 {
		return p, fail
	}
	p.streaming = true
	for i, to := range []*uint64{(*uint64)(&p.lsn), &p.row, &p.seq} {
		if *to, err = strconv.ParseUint(part[i+1], 16, 64); err != nil {
			return p, fail
		}
	}
	return p, nil
}
