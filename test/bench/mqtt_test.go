package bench

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"
)

// BenchmarkMQTT measures the program alone, its start included, while it takes
// messages of qos 1 that Mosquitto has kept for its session; broker-s/M is what the
// broker takes for the delivery.
func BenchmarkMQTT(b *testing.B) {
	n := int64(500_000)
	broker := rig.NewMosquitto(b)
	host, port, err := net.SplitHostPort(broker.Addr)
	if err != nil {
		b.Fatal(err)
	}
	text := fmt.Sprintf(`sources:
  bids:
    mqtt: {broker: %q, topics: [bids], client_id: bench}
    decode: {json: {schema: %s}}
`, "mqtt://"+broker.Addr, bidSchema) + into("bids", drop)
	var spent time.Duration
	measure(b, n, func() usage {
		j := newJob(b, text)
		j.run("--until", "idle=1s") // The broker has its session now.
		publish(b, host, port, n)
		before := cpuOf(b, broker.PID())
		u, out := j.run("--until", "idle=2s")
		spent = cpuOf(b, broker.PID()) - before
		if want := strconv.FormatInt(n, 10); !strings.Contains(strings.ReplaceAll(out, ",", ""), "bench: "+want+" rows read") {
			b.Fatalf("not all messages came:\n%s", out)
		}
		return u
	})
	b.ReportMetric(spent.Seconds()/float64(n)*1e6, "broker-s/M")
}

// publish sends n bids with qos 1, by calls of mosquitto_pub that stay below the
// number of packet identifiers: it ends when the last one it gave is acknowledged.
func publish(b *testing.B, host, port string, n int64) {
	b.Helper()
	const each = 50_000
	for from := int64(0); from < n; from += each {
		publishSome(b, host, port, from, min(from+each, n))
	}
}

func publishSome(b *testing.B, host, port string, from, to int64) {
	b.Helper()
	pub := exec.Command("mosquitto_pub", "-h", host, "-p", port, "-q", "1", "-t", "bids", "-l")
	pub.Stderr = os.Stderr
	in, err := pub.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(in)
	var line []byte
	for i := from; i < to; i++ {
		line = append(bidAt(i).appendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	in.Close()
	if err := pub.Wait(); err != nil {
		b.Fatal(err)
	}
}
