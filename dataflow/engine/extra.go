package engine

import "frazil/dataflow"

// extraFields counts fields outside the schema in all decoders of one source
// task. Its goroutine owns it.
type extraFields struct {
	decoders []dataflow.ExtraCounter
	told     map[string]int64
}

// watch notes every decoder that make makes; nil stays nil.
func (x *extraFields) watch(make func() (dataflow.Decoder, error)) func() (dataflow.Decoder, error) {
	if make == nil {
		return nil
	}
	return func() (dataflow.Decoder, error) {
		d, err := make()
		if c, ok := d.(dataflow.ExtraCounter); ok && err == nil {
			x.decoders = append(x.decoders, c)
		}
		return d, err
	}
}

// since returns what was counted since it was last asked.
func (x *extraFields) since() map[string]int64 {
	if x == nil || len(x.decoders) == 0 {
		return nil
	}
	now := map[string]int64{}
	for _, d := range x.decoders {
		now = addCounts(now, d.Extra())
	}
	out := map[string]int64{}
	for k, n := range now {
		if n > x.told[k] {
			out[k] = n - x.told[k]
		}
	}
	x.told = now
	return out
}
