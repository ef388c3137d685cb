package sinks

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

const toHTTP = `
` + numbers + `sinks:
  hook:
    from: rows
    http: {url: "http://%[1]s/rows", key: key, batch: {rows: 20, format: ndjson}, sign: {secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}}
  all: {from: rows, iceberg: {catalog: local, table: t.sent}}
checkpoint: {every: 100ms}
`

const fromHTTP = `
sources:
  posted:
    http:
      listen: %[1]q
      path: /rows
      auth: {signatures: [{name: us, scheme: standard, secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}]}
      idempotency: {keep: 1h}
    decode: {json: {schema: {n: int64, key: string}, required: [n, key]}}
sinks:
  rows: {from: posted, iceberg: {catalog: local, table: t.posted}}
checkpoint: {every: 200ms}
`

// TestHTTP: whoever is killed, sender or receiver, the receiver's table holds each row
// once, since it honours the idempotency key.
func TestHTTP(t *testing.T) {
	program.Long(t)
	full.Suite{Name: "http-sink", Total: 20, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		rng := rand.New(rand.NewPCG(uint64(portion), 3))
		addr := rig.Address(t)
		to := program.New(t, fmt.Sprint("posted", portion), fmt.Sprintf(fromHTTP, addr))
		from := program.New(t, fmt.Sprint("sent", portion), fmt.Sprintf(toHTTP, addr))
		receiver, sender := to.Start(nil, "run", to.File), from.Start(nil, "run", from.File)
		receiver.Until("the first rows", func() bool { return to.Count("t.posted") > 0 })
		for _, name := range order(rng, map[string]int{"sender": kills, "receiver": kills}) {
			before := to.Count("t.posted")
			switch name {
			case "sender":
				sender.Kill()
				sender = from.Start(nil, "run", from.File)
			case "receiver":
				receiver.Kill()
				receiver = to.Start(nil, "run", to.File)
			}
			if rng.IntN(3) > 0 {
				receiver.Until("rows behind the kill of the "+name, func() bool { return to.Count("t.posted") > before })
			}
		}
		sent := from.Count("t.sent")
		sender.Until("the sender to go on", func() bool { return from.Count("t.sent") > sent })
		sender.Terminate()
		n := from.Count("t.sent")
		receiver.Until("all rows", func() bool { return to.Count("t.posted") >= n })
		receiver.Terminate()
		var got []int64
		for _, row := range to.Rows("t.posted") {
			x, err := row["n"].(json.Number).Int64()
			must(t, err)
			got = append(got, x)
		}
		if wrong := numbered(got, int(n)); wrong != "" {
			t.Error(wrong)
		}
		return full.Figures{"kills_sender": kills, "kills_receiver": kills, "rows": n}
	})
}
