package crash_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"
)

// feeder writes records where the pipeline reads them, and remembers what lies
// where.
type feeder interface {
	put(records []record)
	inputs() map[string][]input
}

// lying collects what was written, by split.
type lying map[string][]input

func (l lying) inputs() map[string][]input { return l }

// topicFeeder writes to partitions; the splits are TOPIC/PARTITION.
type topicFeeder struct {
	lying
	b *broker
}

func (f *topicFeeder) put(records []record) {
	f.b.t.Helper()
	var out []*kgo.Record
	for _, r := range records {
		topic, number, _ := strings.Cut(r.split, "/")
		partition, err := strconv.Atoi(number)
		if err != nil {
			f.b.t.Fatal(err)
		}
		pos := int64(len(f.lying[r.split]))
		f.lying[r.split] = append(f.lying[r.split], input{r, pos, fmt.Sprintf("%s@%d", r.split, pos)})
		out = append(out, &kgo.Record{Topic: topic, Partition: int32(partition), Value: r.value})
	}
	f.b.put(out...)
}

// laneFeeder writes files into ./in, new ones under greater names; the splits
// are the numbers of the lanes.
type laneFeeder struct {
	lying
	p     *place
	lanes int
	rng   *rand.Rand
	files int
}

func newLaneFeeder(p *place, lanes int, rng *rand.Rand) *laneFeeder {
	p.t.Helper()
	if err := os.Mkdir(p.Path("in"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return &laneFeeder{lying: lying{}, p: p, lanes: lanes, rng: rng}
}

// name finds the next name that belongs to a lane.
func (f *laneFeeder) name(lane string, ext string) string {
	f.files++
	for i := 0; ; i++ {
		name := fmt.Sprintf("in/%06d-%d%s", f.files, i, ext)
		if strconv.FormatUint(xxhash.Sum64String(name)%uint64(f.lanes), 10) == lane {
			return name
		}
	}
}

func (f *laneFeeder) put(records []record) {
	f.p.t.Helper()
	byLane := map[string][]record{}
	for _, r := range records {
		byLane[r.split] = append(byLane[r.split], r)
	}
	for l := range f.lanes {
		if lane := strconv.Itoa(l); len(byLane[lane]) > 0 {
			f.putFile(lane, byLane[lane])
		}
	}
}

func (f *laneFeeder) putFile(lane string, records []record) {
	f.p.t.Helper()
	packed := f.rng.Intn(3) == 0
	ext := ".ndjson"
	if packed {
		ext += ".gz"
	}
	name := f.name(lane, ext)
	var text bytes.Buffer
	for i, r := range records {
		text.Write(r.value)
		text.WriteByte('\n')
		f.lying[lane] = append(f.lying[lane], input{r, int64(len(f.lying[lane])), fmt.Sprintf("%s:%d", name, i+1)})
	}
	whole := text.Bytes()
	switch {
	case packed:
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(whole); err != nil {
			f.p.t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.p.t.Fatal(err)
		}
		f.publish(name, z.Bytes())
	case f.rng.Intn(3) == 0: // It grows, from the middle of a line.
		half := f.rng.Intn(len(whole))
		f.publish(name, whole[:half])
		file, err := os.OpenFile(f.p.Path(name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			f.p.t.Fatal(err)
		}
		if _, err := file.Write(whole[half:]); err != nil {
			f.p.t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			f.p.t.Fatal(err)
		}
	default:
		f.publish(name, whole)
	}
}

// publish makes a file appear at once.
func (f *laneFeeder) publish(name string, text []byte) {
	f.p.t.Helper()
	if err := os.WriteFile(f.p.Path("in", ".next"), text, 0o600); err != nil {
		f.p.t.Fatal(err)
	}
	if err := os.Rename(f.p.Path("in", ".next"), f.p.Path(name)); err != nil {
		f.p.t.Fatal(err)
	}
}
