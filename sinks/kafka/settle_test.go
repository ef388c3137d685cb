package kafka

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/rig"
	"frazil/operators/expr"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// leaveOpen appends a record of a transaction of which the coordinator knows nothing, as
// a broker leaves it that forgets a partition at the end of one.
func (p *place) leaveOpen(txn string, id int64, epoch int16, r *kgo.Record) {
	p.t.Helper()
	record := kmsg.Record{Key: r.Key, Value: r.Value}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0b1_0000, FirstTimestamp: 1, MaxTimestamp: 1,
		ProducerID: id, ProducerEpoch: epoch, NumRecords: 1, Records: record.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = kmsg.StringPtr(txn), -1, 10_000
	of := kmsg.NewProduceRequestTopicPartition()
	of.Partition, of.Records = r.Partition, raw
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.Partitions = r.Topic, append(to.Partitions, of)
	req.Topics = append(req.Topics, to)
	// Later ones register the partition with the coordinator.
	cl, err := newClient(p.env, p.cfg, kgo.MaxVersions(kversion.V3_5_0()))
	must(p.t, err)
	defer cl.Close()
	resp, err := req.RequestWith(p.t.Context(), cl)
	must(p.t, err)
	must(p.t, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// forgetful is a broker that takes records of transactions unseen.
func forgetful(t *testing.T) *rig.Broker {
	t.Helper()
	b := rig.NewBroker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	must(t, err)
	defer cl.Close()
	off := "false"
	all, err := kadm.NewClient(cl).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "transaction.partition.verification.enable", Value: &off}})
	must(t, err)
	for _, r := range all {
		must(t, r.Err)
	}
	return b
}

// A broker that starts again after a crash may leave partitions out at the end of the
// transaction that was ending: they get the end that the others have had, before anything
// else is done. Where the broker no longer knows which it was, nobody guesses.
func TestWhatABrokerLeftOpenIsEnded(t *testing.T) {
	broker := forgetful(t)
	t.Setenv("FRAZIL_TEST_KAFKA", broker.Addr)
	for _, c := range []struct {
		name string
		end  kgo.TransactionEndTry
		// forgotten: a process that does not know of this has begun a producer since.
		forgotten bool
		// rows are those in the topic behind it, and at what the positions say.
		rows, at int
	}{
		{name: "committed", end: kgo.TryCommit, rows: 2, at: 2},
		{name: "aborted", end: kgo.TryAbort},
		{name: "forgotten", end: kgo.TryCommit, forgotten: true, rows: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.cfg.PositionsTopic += "." + p.env.Pipeline
			if c.forgotten {
				p.cfg.Topic = p.cfg.Topic[:len(p.cfg.Topic)-1] + "{'" + p.cfg.Topic[len(p.cfg.Topic)-1:] + "'}"
			}
			k := p.committer()
			must(t, k.pos.make(t.Context()))
			topic := strings.NewReplacer("{'", "", "'}", "").Replace(p.cfg.Topic)
			old, err := newClient(p.env, p.cfg, kgo.TransactionalID(k.transactionalID()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			must(t, err)
			defer old.Close()
			must(t, old.BeginTransaction())
			must(t, old.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte(`{"id":0}`)}).FirstErr())
			id, epoch, err := old.ProducerID(t.Context())
			must(t, err)
			must(t, old.EndTransaction(t.Context(), c.end))
			p.leaveOpen(k.transactionalID(), id, epoch, &kgo.Record{Topic: topic, Partition: 2, Value: []byte(`{"id":1}`)})
			own, err := k.pos.records(record{Positions: flowtest.Place(2), Start: flowtest.Place(0)}, nil)
			must(t, err)
			p.leaveOpen(k.transactionalID(), id, epoch, own[0])
			if c.forgotten {
				next, err := newClient(p.env, p.cfg, kgo.TransactionalID(k.transactionalID()))
				must(t, err)
				defer next.Close()
				_, _, err = next.ProducerID(t.Context())
				must(t, err)
				for partition, what := range []string{p.cfg.PositionsTopic, topic} {
					_, err = k.Committed(t.Context())
					if !errors.Is(err, dataflow.ErrUnavailable) || !strings.Contains(err.Error(), "no longer knows whether it was committed") || !strings.Contains(err.Error(), "--topic "+what) {
						t.Fatalf("while it is open in %s: %v", what, err)
					}
					set := kadm.TopicsSet{}
					set.Add(what, int32(2*partition))
					_, err = p.admin.WriteTxnMarkers(t.Context(), kadm.TxnMarkers{ProducerID: id, ProducerEpoch: epoch, Topics: set})
					must(t, err)
				}
			}
			held, err := k.Committed(t.Context())
			must(t, err)
			if want := flowtest.Place(c.at); c.at > 0 && held.Positions.String() != want.String() || c.at == 0 && len(held.Positions) > 0 {
				t.Errorf("it holds %s, want %d", held.Positions, c.at)
			}
			p.cfg.Topic = topic
			p.want("behind it", c.rows)
		})
	}
}

func TestTheNamesOfATemplate(t *testing.T) {
	for text, want := range map[string]string{"orders": "", "orders.{region}": "^orders\\..*$", "{a}-{lower('}')}.x": "^.*-.*\\.x$"} {
		got := ""
		if re := namesOf(expr.TemplateTexts(text)); re != nil {
			got = re.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
