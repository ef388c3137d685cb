package kafka

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"frazil/dataflow"
)

// position is where reading goes on in a partition.
//
// Its text is a format (it is stored in the state and in targets):
//
//	{"gen":"000","offset":"0000000000000000042","topic_id":"lQY2kVYZTZCgVp5Qs0Q_Dg"}
//
// Numbers have a fixed width, so that texts compare as positions do.
type position struct {
	// gen counts how often offsets began to mean something else while reading
	// went on (on_gap: continue over a recreated topic or a truncated log). With
	// it positions grow even where offsets fall back.
	gen    int
	offset int64
	// id is the topic's, as Kafka prints it; "" where brokers have none (before
	// 2.8).
	id string
}

// maxGen is what three digits hold.
const maxGen = 999

// genShift: SysPos holds the generation above the offset. 2^48 records are more
// than any partition has seen.
const genShift = 48

func (p position) encode() dataflow.Position {
	return fmt.Appendf(nil, `{"gen":"%03d","offset":"%019d","topic_id":"%s"}`, p.gen, p.offset, p.id)
}

func parsePosition(text dataflow.Position) (position, error) {
	var v struct {
		Gen    string `json:"gen"`
		Offset string `json:"offset"`
		ID     string `json:"topic_id"`
	}
	err := json.Unmarshal(text, &v)
	p := position{id: v.ID}
	if err == nil {
		p.gen, err = strconv.Atoi(v.Gen)
	}
	if err == nil {
		p.offset, err = strconv.ParseInt(v.Offset, 10, 64)
	}
	if err != nil || string(p.encode()) != string(text) {
		return position{}, fmt.Errorf(`position %q is none of the kafka source: expected {"gen":"000","offset":"0000000000000000000","topic_id":"..."}`, text)
	}
	return p, nil
}

// before says whether p comes before q in the split's order.
func (p position) before(q position) bool {
	return p.gen < q.gen || p.gen == q.gen && p.offset < q.offset
}

// sys is SysPos of the record at p.
func (p position) sys() int64 { return int64(p.gen)<<genShift | p.offset }

// topicID writes an id as Kafka's own tools do.
func topicID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// splitName names a partition's split.
func splitName(topic string, partition int32) dataflow.Split {
	return dataflow.Split(topic + "/" + strconv.Itoa(int(partition)))
}

func parseSplit(s dataflow.Split) (topic string, partition int32, err error) {
	topic, num, ok := strings.Cut(string(s), "/")
	n, err := strconv.ParseInt(num, 10, 32)
	if !ok || err != nil || n < 0 || topic == "" {
		return "", 0, fmt.Errorf("split %q is none of the kafka source: expected topic/partition", s)
	}
	return topic, int32(n), nil
}

// locate writes the place of a record for people.
func locate(s dataflow.Split, pos int64) string {
	gen, offset := pos>>genShift, pos&(1<<genShift-1)
	where := string(s) + "@" + strconv.FormatInt(offset, 10)
	if gen > 0 {
		where += " (generation " + strconv.FormatInt(gen, 10) + ")"
	}
	return where
}

// gens remembers the generation of each split that was assigned here.
type gens struct {
	mu struct {
		sync.Mutex
		m map[dataflow.Split]int
	}
}

func (g *gens) set(split dataflow.Split, gen int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.m == nil {
		g.mu.m = map[dataflow.Split]int{}
	}
	g.mu.m[split] = gen
}

func (g *gens) of(split dataflow.Split) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.m[split]
}
