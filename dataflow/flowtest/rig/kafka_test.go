package rig

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestABrokerKeepsItsDataOverStopAndKill(t *testing.T) {
	b := NewBroker(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i, end := range []func(){b.Stop, b.Kill} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		end()
		if conn, err := net.Dial("tcp", b.Addr); err == nil {
			conn.Close()
			t.Fatal("an ended broker answers")
		}
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		ends, err := admin.ListEndOffsets(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := ends.Lookup("t", 0); !ok || o.Offset != int64(i+1) {
			t.Fatalf("%d records, want %d", o.Offset, i+1)
		}
	}
	if err := b.Start(); err == nil {
		t.Error("a running broker was started again")
	}
}

// What each test of a run would be given alone: own servers from the cache.
func TestServersOfOnesOwn(t *testing.T) {
	for _, env := range []string{"FRAZIL_TEST_KAFKA", "FRAZIL_TEST_S3", "FRAZIL_TEST_REST", "FRAZIL_TEST_REST_AUTH", "FRAZIL_TEST_READERS"} {
		t.Setenv(env, "")
	}
	c := REST(t)
	if !answers(c.URI+"/v1/config")() || !answers(c.Store.Endpoint+"/healthz")() {
		t.Error("the catalog or its store does not answer")
	}
	if Readers(t) == "" {
		t.Error("no readers")
	}
}
