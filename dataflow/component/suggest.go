package component

import (
	"fmt"
	"sort"
	"strings"
)

// Nearest returns the name in known that a user may have meant by name, or "".
func Nearest(name string, known []string) string {
	best, dist := "", 1+max(len(name)/3, 1)
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < dist {
			best, dist = k, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range known {
		if len(name) > 2 && (strings.HasPrefix(k, name) || len(k) > 2 && strings.HasPrefix(name, k)) {
			return k
		}
	}
	return ""
}

// DidYouMean is "; did you mean ...?" for the nearest name, or "".
func DidYouMean(name string, known []string) string {
	if n := Nearest(name, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// Names writes a list of names for a message, sorted: a, b, c.
func Names(known []string) string {
	if len(known) == 0 {
		return "none"
	}
	s := append([]string(nil), known...)
	sort.Strings(s)
	return strings.Join(s, ", ")
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours.
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	prev2, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(y)]
}

// foreign maps option names of other tools to what does the same here.
var foreign = map[string]string{
	"upsert-mode-enabled":                    `of the Iceberg sink for Kafka Connect; here a sink says "mode: upsert" once it takes changes`,
	"iceberg.tables.upsert-mode-enabled":     `of the Iceberg sink for Kafka Connect; here a sink says "mode: upsert" once it takes changes`,
	"iceberg.tables":                         `of Kafka Connect; write "table"`,
	"iceberg.catalog":                        `of Kafka Connect; declare it under "connections" and write "catalog: NAME"`,
	"iceberg.control.commit.interval-ms":     `of Kafka Connect; commits follow "checkpoint: {every: 10s}"`,
	"commit.interval.ms":                     `of Kafka; commits follow "checkpoint: {every: 10s}"`,
	"errors.tolerance":                       `of Kafka Connect; bad rows leave by the port "STEP.bad"`,
	"errors.deadletterqueue.topic.name":      `of Kafka Connect; send the port "STEP.bad" to a sink`,
	"dead_letter_queue":                      `of other tools; send the port "STEP.bad" to a sink`,
	"dlq":                                    `of other tools; send the port "STEP.bad" to a sink`,
	"group.id":                               `of Kafka clients; positions are kept by Frazil, write "group" for the mirrored group`,
	"group_id":                               `of other tools; positions are kept by Frazil, write "group" for the mirrored group`,
	"consumer_group":                         `of Benthos; positions are kept by Frazil, write "group" for the mirrored group`,
	"bootstrap.servers":                      `of Kafka clients; write "brokers: [HOST:PORT]"`,
	"bootstrap_servers":                      `of Kafka clients; write "brokers: [HOST:PORT]"`,
	"seed_brokers":                           `of Benthos; write "brokers: [HOST:PORT]"`,
	"addresses":                              `of Benthos; write "brokers: [HOST:PORT]"`,
	"auto.offset.reset":                      `of Kafka clients; write "start: earliest" or "start: latest", and "on_gap" for lost records`,
	"auto_offset_reset":                      `of Kafka clients; write "start: earliest" or "start: latest", and "on_gap" for lost records`,
	"start_from_oldest":                      `of Benthos; write "start: earliest"`,
	"scan.startup.mode":                      `of Flink; write "start: earliest" or "start: latest"`,
	"enable.auto.commit":                     `of Kafka clients; positions are committed with every checkpoint`,
	"isolation.level":                        `of Kafka clients; write "isolation"`,
	"transactional.id":                       `of Kafka clients; exactly once needs no option here`,
	"checkpoint_limit":                       `of Benthos; checkpoints are set by "checkpoint" at the top of the file`,
	"batching":                               `of Benthos; batches are made by the engine`,
	"max_in_flight":                          `of Benthos; queues are bounded by "memory" at the top of the file`,
	"processors":                             `of Benthos; write steps under "operators"`,
	"mapping":                                `of Benthos; write the operator "project" with "compute"`,
	"input":                                  `of Benthos; write a step under "sources"`,
	"output":                                 `of Benthos; write a step under "sinks"`,
	"pipeline":                               `of Benthos; write steps under "operators"`,
	"execution.checkpointing.interval":       `of Flink; write "checkpoint: {every: 10s}"`,
	"table.exec.source.idle-timeout":         `of Flink; write "idle_after" in event_time`,
	"parallelism.default":                    `of Flink; write "parallelism" at the top of the file`,
	"watermark":                              `of Flink; write "event_time: {column: ..., out_of_orderness: ...}" in the source`,
	"transforms":                             `of other tools; write steps under "operators"`,
	"interval":                               `of other tools; write "every"`,
	"commit_interval":                        `of other tools; commits follow "checkpoint: {every: 10s}"`,
	"commit_intervall":                       `of other tools; commits follow "checkpoint: {every: 10s}"`,
	"exactly_once":                           `of other tools; exactly once is the default`,
	"properties.bootstrap.servers":           `of Flink; write "brokers: [HOST:PORT]"`,
	"value.format":                           `of Flink; write "decode: {json: {schema: ...}}" in the source`,
	"format":                                 `of other tools; write "decode: {json: {schema: ...}}" in the source`,
	"allowedLateness":                        `of other tools; write "allowed_lateness"`,
	"primary_key":                            `of other tools; write "key"`,
	"identifier_fields":                      `of other tools; write "key"`,
	"ttl":                                    `of other tools; write "within"`,
	"dedupe":                                 `of Benthos; write "dedup"`,
	"bloblang":                               `of Benthos; write the operators "filter" and "project"`,
	"sql":                                    `of other tools; write the operators "filter", "project" and "window"`,
	"branch_name":                            `of other tools; write "branch"`,
	"write.format.default":                   `of Iceberg; tables are written as Parquet`,
	"iceberg.tables.default-partition-by":    `of Kafka Connect; write "partition_by"`,
	"iceberg.tables.auto-create-enabled":     `of Kafka Connect; tables are made on first use`,
	"iceberg.tables.evolve-schema-enabled":   `of Kafka Connect; schemas are not changed by themselves`,
	"iceberg.tables.default-id-columns":      `of Kafka Connect; write "key"`,
	"iceberg.tables.dynamic-enabled":         `of Kafka Connect; route rows with "filter" steps`,
	"iceberg.tables.schema-case-insensitive": `of Kafka Connect; column names are matched exactly`,
}

// UnknownKey writes the message for a key that a block does not have. known are
// the block's keys; elsewhere says where a key belongs that another block has.
func UnknownKey(key string, known []string, elsewhere map[string]string) string {
	msg := fmt.Sprintf("unknown key %q", key)
	if at, ok := elsewhere[key]; ok {
		for _, k := range known {
			if editDistance(key, k) == 1 && len(k) > 3 {
				return fmt.Sprintf("%s; did you mean %q, or should it stand in %s? known: %s", msg, k, at, Names(known))
			}
		}
		return fmt.Sprintf("%s here: it belongs to %s; known here: %s", msg, at, Names(known))
	}
	hint, ok := foreign[key]
	if n := Nearest(key, known); n != "" && !(ok && strings.ContainsAny(key, ".-")) {
		return fmt.Sprintf("%s; did you mean %q? known: %s", msg, n, Names(known))
	}
	if ok {
		return fmt.Sprintf("%s: it is an option %s; known here: %s", msg, hint, Names(known))
	}
	for _, k := range sortedKeys(elsewhere) {
		if at := elsewhere[k]; editDistance(key, k) == 1 && len(k) > 3 {
			return fmt.Sprintf("%s; did you mean %q, which belongs to %s? known here: %s", msg, k, at, Names(known))
		}
	}
	return fmt.Sprintf("%s; known: %s", msg, Names(known))
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
