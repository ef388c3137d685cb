package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Kafka returns the address of a broker. It may serve other tests too: name
// topics so that they are yours alone.
func Kafka(t testing.TB) string {
	t.Helper()
	if a := os.Getenv("FRAZIL_TEST_KAFKA"); a != "" {
		return a
	}
	return NewBroker(t).Addr
}

// Broker is a Kafka broker of one test's own, on one node, with no topics.
// Its methods are called from one goroutine.
type Broker struct {
	// Addr is HOST:PORT, the same after each Start.
	Addr string

	home, dir string
	starts    int
	process   *process
}

// NewBroker starts a broker with its data in a folder of the test; it ends with
// the test.
func NewBroker(t testing.TB) *Broker {
	t.Helper()
	if _, err := installed("kafka", "lib"); err != nil {
		missing(t, "Kafka broker", "run ./test/install, or set FRAZIL_TEST_KAFKA to HOST:PORT where one will do")
	}
	b, err := newBroker(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}

const brokerProperties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%s
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=data
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=8388608
`

const plainListeners = `listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
`

// newBroker starts a broker in an empty folder.
func newBroker(dir string) (*Broker, error) {
	b, err := layBroker(dir, func(address, controller string) string { return fmt.Sprintf(plainListeners, address, controller) })
	if err != nil {
		return nil, err
	}
	return b, b.Start()
}

// layBroker makes what a broker starts from; listeners are its lines for the addresses
// of its plain listener and of its controller.
func layBroker(dir string, listeners func(address, controller string) string) (*Broker, error) {
	home, err := installed("kafka")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	b := &Broker{Addr: addr(ports[0]), home: home, dir: dir}
	controller := addr(ports[1])
	props := fmt.Sprintf(brokerProperties, controller) + listeners(b.Addr, controller)
	if err := os.WriteFile(filepath.Join(dir, "server.properties"), []byte(props), 0o600); err != nil {
		return nil, err
	}
	// ./test/install formatted an empty data folder once for all brokers.
	if err := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(home, "formatted"))); err != nil {
		return nil, fmt.Errorf("lay the broker's data folder: %w", err)
	}
	return b, nil
}

// Start starts the broker again on the data it has, and returns when it serves.
func (b *Broker) Start() error {
	if b.process != nil {
		return fmt.Errorf("the broker at %s runs already", b.Addr)
	}
	b.starts++
	p, err := launch("the Kafka broker", b.dir, filepath.Join(b.dir, "log."+strconv.Itoa(b.starts)), "java",
		"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(b.home, "lib", "*"),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
		"kafka.Kafka", "server.properties")
	if err != nil {
		return err
	}
	b.process = p
	if err := p.wait(p.logs("Kafka Server started")); err != nil {
		b.Kill()
		return err
	}
	return nil
}

// Stop ends the broker in good order (SIGTERM). Its data stays.
func (b *Broker) Stop() {
	if b.process != nil {
		b.process.stop()
		b.process = nil
	}
}

// Kill ends the broker at once (SIGKILL). Its data stays.
func (b *Broker) Kill() {
	if b.process != nil {
		b.process.kill()
		b.process = nil
	}
}
