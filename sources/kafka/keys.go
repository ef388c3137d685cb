package kafka

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// keys decodes the keys of records. A key is decoded before its value, and a record
// whose value is bad leaves a key behind that no row has.
type keys struct {
	dec   dataflow.Decoder
	waits dataflow.WaitingDecoder // dec, if it may need something from outside
	// at is the decoded key of each row, -1 where the record has none. plain: at is
	// 0, 1, 2, ... so far.
	at    []int32
	plain bool
}

func newKeys(dec dataflow.Decoder) *keys {
	waits, _ := dec.(dataflow.WaitingDecoder)
	return &keys{dec: dec, waits: waits, plain: true}
}

// decode decodes a key that is there.
func (k *keys) decode(key []byte) *dataflow.Bad {
	if key == nil {
		return nil
	}
	bad := k.dec.Append(key)
	if bad != nil {
		bad = &dataflow.Bad{Reason: bad.Reason, Detail: "the key: " + bad.Detail}
	}
	return bad
}

// keep gives the key that was decoded last to a row.
func (k *keys) keep(key []byte) {
	at := int32(-1)
	if key != nil {
		at = int32(k.dec.Rows()) - 1
	}
	k.plain = k.plain && int(at) == len(k.at)
	k.at = append(k.at, at)
}

// flush returns the columns of all rows.
func (k *keys) flush(alloc memory.Allocator) []arrow.Array {
	cols := k.dec.Flush()
	if len(cols) > 0 && (!k.plain || cols[0].Len() != len(k.at)) {
		for i, c := range cols {
			cols[i] = k.gather(alloc, c)
			c.Release()
		}
	}
	k.at, k.plain = k.at[:0], true
	return cols
}

// gather takes the keys of the rows out of all that were decoded. It cannot fail: the
// types are those of decoders.
func (k *keys) gather(alloc memory.Allocator, c arrow.Array) arrow.Array {
	none := array.MakeArrayOfNull(alloc, c.DataType(), 1)
	defer none.Release()
	all, err := array.Concatenate([]arrow.Array{c, none}, alloc)
	if err != nil {
		panic("kafka: keys of " + c.DataType().String() + ": " + err.Error())
	}
	defer all.Release()
	for i, at := range k.at {
		if at < 0 {
			k.at[i] = int32(c.Len())
		}
	}
	out, err := dataflow.TakeArray(alloc, all, k.at)
	if err != nil {
		panic("kafka: keys of " + c.DataType().String() + ": " + err.Error())
	}
	return out
}

func (k *keys) release() { giveUp(k.dec) }
