package operators

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// overStored reads what a task has stored: key and value of each row of the log,
// then what is under the prefix of partitions without room.
func overStored(t *testing.T, kv state.KV) (out []string) {
	t.Helper()
	env := &dataflow.Env{State: kv, Groups: state.Groups{Lo: 0, Hi: state.NumGroups}}
	_, err := openKeyLog(env, overLogPrefix, func(_ int, key, value []byte) error {
		out = append(out, fmt.Sprintf("%x %x", key, value))
		return nil
	})
	for g := range state.NumGroups {
		err2 := kv.Scan(g, []byte{overColdPrefix}, []byte{overColdPrefix + 1}, func(key, value []byte) error {
			out = append(out, fmt.Sprintf("%x %x", key, value))
			return nil
		})
		dedupMust(t, err2)
	}
	dedupMust(t, err)
	return out
}

var overFormatRows = []overRow{
	{k: 7, v: 5, s: "b", t: 1, pos: 1}, {k: 7, v: 5, s: "a", t: 2, pos: 2}, {k: 7, v: -1, s: "", t: 3, pos: 3},
}

func overFormatConfig() OverConfig {
	return OverConfig{By: byColumns("k"), Aggregate: component.NamedExprs{
		{Name: "ss", Expr: "string_agg(s, ',')"}, {Name: "n", Expr: "count(*)"}, {Name: "d", Expr: "count(distinct v)"}, {Name: "m", Expr: "max(s)"},
	}}
}

const overFormatKey = "01" + "8000000000000007"

// TestOverStateFormat pins the bytes: they are in the state of users.
func TestOverStateFormat(t *testing.T) {
	hour := component.Duration(time.Hour)
	one, none := "0100000000000000", "0000000000000000"
	place := func(pos string) string {
		return "800000000000000" + pos + hex.EncodeToString([]byte("in\x00\x01p0\x00\x01")) + "800000000000000" + pos
	}
	text := func(pos, s string) string { return "1d1804" + place(pos) + s + "0001" } // Of string_agg: lengths, place, value.
	for name, c := range map[string]struct {
		cfg  func(*OverConfig)
		want []string
	}{
		// n, m; ss, d; the value of d. Then the bytes of m, ss and the value. The first
		// row has left the frame.
		"rows": {func(c *OverConfig) { c.RowsPreceding, c.ExpireAfter = 1, hour }, []string{
			overFormatKey + " 01" + "8000000000000002" + one + one + one + one + one + "0161" + text("2", "61") + "09" + "018000000000000005",
			overFormatKey + " 01" + "8000000000000003" + one + none + none + none + none,
		}},
		// Began anew, last; ss, n, d, m of all rows, then the value of d.
		"unbounded": {func(c *OverConfig) { c.Unbounded = &OverUnbounded{ExpireAfter: hour} }, []string{
			overFormatKey + " 0101" + "8000000000000003" + "5d" + one + "0300000000000000" + one + one +
				"3a" + text("1", "62")[2:] + text("2", "61")[2:] + "0162" + "00" + "09" + "018000000000000005",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := overFormatConfig()
			c.cfg(&cfg)
			r := newOverRig(t, memory.DefaultAllocator, cfg)
			r.start(1, 0)
			r.send(overFormatRows)
			r.watermark(4)
			r.barrier()
			r.close()
			if got := overStored(t, r.kv); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestOverStateIsRefused: bytes of another version, or cut ones, are an error and
// not a wrong result.
func TestOverStateIsRefused(t *testing.T) {
	for _, cfg := range []OverConfig{{RangePreceding: component.Duration(time.Hour)}, {Unbounded: &OverUnbounded{ExpireAfter: component.Duration(time.Hour)}}} {
		cfg.By, cfg.Aggregate = byColumns("k"), overFormatConfig().Aggregate[:2]
		r := newOverRig(t, memory.DefaultAllocator, cfg)
		r.start(1, 0)
		r.send(overFormatRows[:1])
		r.watermark(4)
		r.barrier()
		stored := overStored(t, r.kv)
		_, text, _ := strings.Cut(stored[0], " ")
		value, _ := hex.DecodeString(text)
		o := r.tasks[0].(*stampOrder).inner.(*overKeyed)
		for cut := range len(value) + 1 {
			bad := slices.Clone(value[:cut])
			if cut == len(value) {
				bad[0]++
			}
			f := o.newFrame()
			if err := o.take(&f, bad); err == nil {
				t.Errorf("value %x is accepted", bad)
			}
		}
		r.close()
	}
}
