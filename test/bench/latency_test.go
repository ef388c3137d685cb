package bench

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// start starts the pipeline; it is stopped with the benchmark. lines is what it
// prints.
func (j *job) start() (lines *bufio.Scanner, pid int) {
	j.tb.Helper()
	cmd := j.command("run", "pipeline.yaml")
	out, err := cmd.StdoutPipe()
	if err != nil {
		j.tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		j.tb.Fatal(err)
	}
	j.tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out), cmd.Process.Pid
}

// emptyTopic makes a topic of one partition for single records.
func emptyTopic(tb testing.TB, broker string) (*kgo.Client, string) {
	tb.Helper()
	topic := fmt.Sprintf("frazil-latency-%d", time.Now().UnixNano())
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cl.Close)
	if _, err := kadm.NewClient(cl).CreateTopic(tb.Context(), 1, 1, nil, topic); err != nil {
		tb.Fatal(err)
	}
	return cl, topic
}

// BenchmarkLatency sends one record at a time to an idle pipeline with the
// settings of the other benchmarks and measures until its line is on standard
// output, from the send (the way through the broker is part of it) and from the
// broker's acknowledgement.
func BenchmarkLatency(b *testing.B) {
	broker := brokerOf(b)
	cl, topic := emptyTopic(b, broker)
	j := newJob(b, fromKafka(broker, topic)+into("bids", "console: {}"))
	lines, _ := j.start()
	send := func(i int64) (whole, behind time.Duration) {
		start := time.Now()
		if err := cl.ProduceSync(b.Context(), &kgo.Record{Value: bidAt(i).appendJSON(nil)}).FirstErr(); err != nil {
			b.Fatal(err)
		}
		acked := time.Now()
		if !lines.Scan() {
			b.Fatalf("the pipeline ended: %v", lines.Err())
		}
		if want := bidLine(bidAt(i)); lines.Text() != want {
			b.Fatalf("got %s, want %s", lines.Text(), want)
		}
		return time.Since(start), time.Since(acked)
	}
	send(0) // the pipeline is up and the connections are made
	n := int64(1)
	var wholes, behinds []time.Duration
	for b.Loop() {
		for range 500 {
			time.Sleep(20 * time.Millisecond) // idle again
			w, a := send(n)
			wholes, behinds = append(wholes, w), append(behinds, a)
			n++
		}
	}
	b.ReportMetric(percentile(wholes, 0.5), "p50-ms")
	b.ReportMetric(percentile(wholes, 0.99), "p99-ms")
	b.ReportMetric(percentile(behinds, 0.5), "p50-behind-broker-ms")
	b.ReportMetric(percentile(behinds, 0.99), "p99-behind-broker-ms")
	b.ReportMetric(0, "ns/op")
}

func percentile(d []time.Duration, p float64) (ms float64) {
	slices.Sort(d)
	return float64(d[int(float64(len(d)-1)*p)].Microseconds()) / 1000
}

// BenchmarkIdle reports the resident memory of a pipeline from Kafka into
// Iceberg that has had one record and now has nothing to do, and its processor
// time per second.
func BenchmarkIdle(b *testing.B) {
	broker := brokerOf(b)
	cl, topic := emptyTopic(b, broker)
	j := newJob(b, fromKafka(broker, topic)+into("bids", iceberg))
	_, pid := j.start()
	if err := cl.ProduceSync(b.Context(), &kgo.Record{Value: bidAt(0).appendJSON(nil)}).FirstErr(); err != nil {
		b.Fatal(err)
	}
	var first, last time.Duration
	const quiet = 30 * time.Second
	for b.Loop() {
		time.Sleep(quiet / 3)
		first = cpuOf(b, pid)
		time.Sleep(quiet)
		last = cpuOf(b, pid)
	}
	rss, most := memoryOf(b, pid)
	b.ReportMetric(rss, "rss-MB")
	b.ReportMetric(most, "max-rss-MB")
	b.ReportMetric((last-first).Seconds()/quiet.Seconds()*1000, "cpu-ms/s")
	b.ReportMetric(0, "ns/op")
}

// memoryOf reads a process's resident memory now and at most, in MB.
func memoryOf(b *testing.B, pid int) (now, most float64) {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = kb / 1024
		case "VmHWM:":
			most = kb / 1024
		}
	}
	return now, most
}

// cpuOf reads how long a process has used the processors; the kernel counts in
// hundredths of a second.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	sys, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+sys) * 10 * time.Millisecond
}
