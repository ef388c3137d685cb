#!/usr/bin/env bash
# Starts a Kafka broker on loopback, with its files in ./frazil-data/kafka: one
# node, no login. Needs Java 17 and, the first time, Maven. PORT is the broker's
# (9092), the port after it the controller's.
#
#     PORT=9092 examples/kafka/start-broker.sh
set -euo pipefail
pom=$(cd "$(dirname "$0")" && pwd)/pom.xml
port=${PORT:-9092}
mkdir -p frazil-data/kafka && cd frazil-data/kafka
for tool in java $([ -d lib ] || echo mvn); do
  command -v "$tool" >/dev/null || { echo "$tool is missing; on Debian: apt-get install -y openjdk-17-jre-headless maven" >&2; exit 1; }
done
if [ -f pid ] && kill -0 "$(cat pid)" 2>/dev/null; then
  echo "a broker runs already, process $(cat pid); stop it: kill $(cat pid)" >&2
  exit 1
fi
if [ ! -d lib ]; then
  echo "fetching Kafka by Maven (43 MB)"
  rm -rf lib.part
  timeout 600 mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/lib.part"
  mv lib.part lib
fi
cat > server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=data
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
PROPERTIES
if [ ! -d data ]; then
  id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
  java -Xmx128m -cp 'lib/*' kafka.tools.StorageTool format -t "$id" -c server.properties >format.log 2>&1 ||
    { cat format.log >&2; exit 1; }
fi
nohup java -Xms64m -Xmx512m -XX:+UseSerialGC -cp 'lib/*' \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
  kafka.Kafka server.properties >log 2>&1 </dev/null &
echo $! >pid
for _ in $(seq 240); do
  if grep -q 'Kafka Server started' log; then
    echo "Kafka serves at 127.0.0.1:$port, process $(cat pid); its files are in $PWD; stop it: kill $(cat pid)"
    exit 0
  fi
  kill -0 "$(cat pid)" 2>/dev/null || break
  sleep 0.5
done
echo "Kafka did not start (within 2 minutes); the end of $PWD/log:" >&2
tail -20 log >&2
kill "$(cat pid)" 2>/dev/null || true
exit 1
