package sinks

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

const toMQTT = `
` + numbers + `sinks:
  out: {from: rows, mqtt: {broker: "mqtt://%[1]s", topic: "numbers/{key}", qos: %[2]d}}
  all: {from: rows, iceberg: {catalog: local, table: t.sent}}
checkpoint: {every: 100ms}
`

const fromMQTT = `
sources:
  got:
    mqtt: {broker: "mqtt://%[1]s", topics: [numbers/+], qos: 2, client_id: reader%[2]d}
    decode: {json: {schema: {n: int64, key: string}, required: [n, key]}}
sinks:
  rows: {from: got, iceberg: {catalog: local, table: t.got}}
checkpoint: {every: 200ms}
`

// TestMQTT: whatever is stopped or killed, each row comes to a subscriber with a session;
// those under way at a kill may come again. The broker is stopped, not killed: what it
// has acknowledged and not yet saved it forgets with a kill.
func TestMQTT(t *testing.T) {
	program.Long(t)
	full.Suite{Name: "mqtt-sink", Total: 20, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		rng := rand.New(rand.NewPCG(uint64(portion), 4))
		broker := rig.NewMosquitto(t)
		to := program.New(t, fmt.Sprint("got", portion), fmt.Sprintf(fromMQTT, broker.Addr, portion))
		from := program.New(t, fmt.Sprint("sent", portion), fmt.Sprintf(toMQTT, broker.Addr, 1+portion%2))
		receiver := to.Start(nil, "run", to.File)
		receiver.Until("the subscription", func() bool {
			broker.Pub(t, []byte(`{"n": -1, "key": "k"}`), "-t", "numbers/first", "-q", "1")
			return to.Count("t.got") > 0
		})
		sender := from.Start(nil, "run", from.File)
		count := to.Count("t.got")
		receiver.Until("the first rows", func() bool { return to.Count("t.got") > count+100 })
		for _, name := range order(rng, map[string]int{"sender": kills, "broker": kills}) {
			before := to.Count("t.got")
			switch name {
			case "sender":
				sender.Kill()
				sender = from.Start(nil, "run", from.File)
			case "broker":
				// The reader as well: one that is thrown out five times in a row takes it for
				// another client of its name, and waits.
				receiver.Kill()
				broker.Stop()
				must(t, broker.Start())
				receiver = to.Start(nil, "run", to.File)
			}
			if rng.IntN(3) > 0 {
				receiver.Until("rows behind the end of the "+name, func() bool { return to.Count("t.got") > before })
			}
		}
		sent := from.Count("t.sent")
		sender.Until("the sender to go on", func() bool { return from.Count("t.sent") > sent })
		sender.Terminate()
		n := from.Count("t.sent")
		var got []int64
		read := func() []int64 {
			got = got[:0]
			for _, row := range to.Rows("t.got") {
				x, err := row["n"].(json.Number).Int64()
				must(t, err)
				if x >= 0 {
					got = append(got, x)
				}
			}
			slices.Sort(got)
			return slices.Compact(slices.Clone(got))
		}
		receiver.Until("all rows", func() bool { return int64(len(read())) >= n })
		receiver.Terminate()
		if wrong := numbered(read(), int(n)); wrong != "" {
			t.Error(wrong)
		}
		return full.Figures{"kills_sender": kills, "stops_broker": kills, "rows": n, "again": int64(len(got)) - n}
	})
}
