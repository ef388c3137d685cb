# What schemathesis cannot make by itself: bodies of types that are no JSON. They fit
# any stream whose only required column is "id".
import io

import pyarrow as pa
import schemathesis
from hypothesis import strategies as st

ids = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)


def stream(values):
    table = pa.table({"id": pa.array(values, pa.int64())})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as w:
        w.write_table(table)
    return out.getvalue()


for media_type, body in {
    "text/csv": lambda v: ("id\r\n" + "".join(f"{x}\r\n" for x in v)).encode(),
    "application/x-ndjson": lambda v: "".join(f'{{"id": {x}}}\n' for x in v).encode(),
    "application/vnd.apache.arrow.stream": stream,
}.items():
    schemathesis.openapi.media_type(media_type, ids.map(body))
