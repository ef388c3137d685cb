# Posts with the clients that people use: requests, pyarrow and the CloudEvents SDK.
# Prints what was answered, one line each.
import datetime
import gzip
import io
import sys

import pyarrow as pa
import requests
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

url = sys.argv[1]


def say(name, r):
    print(name, r.status_code, r.text.strip())


say("json", requests.post(url, json={"id": 1, "name": "größe"}))
say("array", requests.post(url, json=[{"id": 2}, {"id": 3}]))
say("gzip", requests.post(url, data=gzip.compress(b'{"id": 4}\n{"id": 5}'), headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}))
say("chunked", requests.post(url, data=(c for c in [b'{"id"', b": 6}\n", b'{"id": 7}']), headers={"Content-Type": "application/x-ndjson"}))
table = pa.table({
    "name": pa.array(["a", None, "c"]).dictionary_encode(),
    "id": pa.array([8, 9, 10], pa.int32()),
    "at": pa.array([datetime.datetime(2026, 3, 1, 10, tzinfo=datetime.timezone.utc)] * 3),
    "tags": pa.array([["x", "y"], [], None]),
    "price": pa.array([1, 2, 3], pa.decimal128(5, 0)),
})
out = io.BytesIO()
with pa.ipc.new_stream(out, table.schema) as w:
    w.write_table(table, max_chunksize=2)
say("arrow", requests.post(url, data=out.getvalue(), headers={"Content-Type": "application/vnd.apache.arrow.stream"}))
for n, send in [(11, to_structured_event), (12, to_binary_event)]:
    event = CloudEvent({"type": "com.example.sampletype1", "source": "https://example.com/event-producer", "id": f"e{n}", "specversion": "1.0", "subject": "größe"}, {"id": n})
    m = send(event)
    say("event", requests.post(url, data=m.body, headers=m.headers))
