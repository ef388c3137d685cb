// Command fleet simulates devices that publish temperatures to an MQTT broker with
// qos 1: always the same ones for a seed. Some readings are sent twice, and some are
// no JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"net"
	"os"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// reading is one message of a device.
type reading struct {
	device, seq int
	at          time.Time
	temp        float64
	broken      bool
}

var sites = []string{"bergen", "graz", "porto"}

func (r reading) site() string { return sites[r.device%len(sites)] }
func (r reading) line() string { return fmt.Sprintf("l%d", r.device%7) }

func (r reading) topic() string { return "plants/" + r.site() + "/" + r.line() + "/temp" }

func (r reading) payload() []byte {
	if r.broken {
		return []byte("sensor error")
	}
	return fmt.Appendf(nil, `{"device":"d%d","seq":%d,"ts":%d,"temp":%.1f}`, r.device, r.seq, r.at.UnixMilli(), r.temp)
}

// readings are those of one device: one every 2 seconds.
func readings(device, n int, seed int64) []reading {
	rng := rand.New(rand.NewSource(seed + int64(device)))
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(rng.Intn(2000)) * time.Millisecond)
	var out []reading
	for seq := 1; seq <= n; seq++ {
		r := reading{device: device, seq: seq, at: at, temp: float64(180+rng.Intn(100)) / 10, broken: rng.Intn(500) == 0}
		out = append(out, r)
		if rng.Intn(20) == 0 {
			out = append(out, r)
		}
		at = at.Add(2 * time.Second)
	}
	return out
}

// publish sends all readings of one device and waits for each acknowledgement.
func publish(ctx context.Context, broker string, device int, all []reading) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", broker)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("device-%d", device)
	client := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: conn})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: id, KeepAlive: 30, CleanStart: true}); err != nil {
		return err
	}
	for _, r := range all {
		if _, err := client.Publish(ctx, &paho.Publish{Topic: r.topic(), QoS: 1, Payload: r.payload()}); err != nil {
			return err
		}
	}
	return client.Disconnect(&paho.Disconnect{})
}

// run lets all devices publish side by side.
func run(ctx context.Context, broker string, devices, n int, seed int64) error {
	var wg sync.WaitGroup
	errs := make([]error, devices)
	for d := range devices {
		wg.Go(func() {
			if err := publish(ctx, broker, d, readings(d, n, seed)); err != nil {
				errs[d] = fmt.Errorf("device %d: %w", d, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func main() {
	devices := flag.Int("devices", 300, "how many devices")
	n := flag.Int("readings", 100, "how many readings of each")
	seed := flag.Int64("seed", 1, "what looks random follows from this number")
	flag.Parse()
	broker := os.Getenv("MQTT")
	if broker == "" {
		broker = "127.0.0.1:1883"
	}
	began := time.Now()
	if err := run(context.Background(), broker, *devices, *n, *seed); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d devices published %d readings each in %.1f s\n", *devices, *n, time.Since(began).Seconds())
}
