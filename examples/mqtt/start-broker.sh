#!/usr/bin/env bash
# Starts Mosquitto, an MQTT broker, on loopback, with its files in
# ./frazil-data/mosquitto. It goes on in the background.
#
#     PORT=1883 examples/mqtt/start-broker.sh
set -euo pipefail
port=${PORT:-1883}
PATH=$PATH:/usr/sbin
command -v mosquitto >/dev/null || { echo "needs mosquitto: apt-get install --no-install-recommends mosquitto" >&2; exit 1; }
mkdir -p frazil-data/mosquitto && cd frazil-data/mosquitto
cat >mosquitto.conf <<END
listener $port 127.0.0.1
allow_anonymous true
persistence true
persistence_location $PWD/
autosave_interval 1
max_queued_messages 0
max_inflight_messages 1000
END
if [ "$(id -u)" = 0 ]; then echo "user root" >>mosquitto.conf; fi # else it may not write here
setsid mosquitto -c mosquitto.conf >log 2>&1 </dev/null &
pid=$!
for _ in $(seq 100); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "mosquitto listens on 127.0.0.1:$port; stop it with: kill $pid"
    exit 0
  fi
  kill -0 $pid 2>/dev/null || { cat log >&2; exit 1; }
  sleep 0.1
done
echo "mosquitto is not ready after 10 s" >&2
exit 1
