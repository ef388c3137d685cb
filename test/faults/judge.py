"""Reads and writes Iceberg tables for the tests of this folder, with PyIceberg and DuckDB: one JSON request a line, one JSON answer.

The one argument is a JSON object: catalog (URI of a REST catalog), props ({"s3.endpoint": ...}).
  {"do": "append", "table": T, "row": N, "n": K}  appends K rows, each in its own snapshot, in one commit: N, N-1, ... in whole numbers,
                                          "rival" in texts, 1970 in times
  {"do": "rows", "table": T}              all rows, as each reader sees them: {"pyiceberg": [[...]], "duckdb": [[...]]}; times in microseconds
  {"do": "numbers", "table": T}           of column n, as each reader sees it: {"pyiceberg": [rows, different ones, least, greatest], "duckdb": ...}
  {"do": "files", "table": T}             {"snapshots", "named", "missing": [...], "orphans"}: data files and manifests of all snapshots
  {"do": "lose", "table": T}              removes a data file of the newest snapshot from the store
"""
import datetime as dt, glob, importlib, json, sys, warnings

warnings.filterwarnings("ignore")
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import requests
from pyarrow.fs import FileSelector, S3FileSystem
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Operation

ask = json.loads(sys.argv[1])
props = ask["props"]
catalog = load_catalog("judge", type="rest", uri=ask["catalog"], **props)
store = S3FileSystem(endpoint_override=props["s3.endpoint"], access_key=props["s3.access-key-id"], secret_key=props["s3.secret-access-key"], region="us-east-1")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
con = None


def duck():
    global con
    if con is None:
        con = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for name in ("avro", "iceberg", "httpfs"):
            folder = list(importlib.import_module("duckdb_extension_" + name).__path__)[0]
            con.execute("LOAD '%s'" % glob.glob(f"{folder}/extensions/*/{name}.duckdb_extension")[0])
        con.execute("SET TimeZone='UTC'")
        con.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{props['s3.access-key-id']}', SECRET '{props['s3.secret-access-key']}', REGION 'us-east-1', "
                    f"ENDPOINT '{props['s3.endpoint'].split('://')[1]}', URL_STYLE 'path', USE_SSL false)")
    return con


def one_row(t, row):
    schema = t.schema().as_arrow()
    columns = []
    for f in schema:
        if pa.types.is_timestamp(f.type):
            v = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc if f.type.tz else None)
        elif pa.types.is_integer(f.type):
            v = row
        else:
            v = "rival"
        columns.append(pa.array([v], f.type))
    return pa.Table.from_arrays(columns, schema=schema)


def append(table, row, n=1):
    for attempt in range(50):
        t = catalog.load_table(table)
        try:
            with t.transaction() as tx:
                for i in range(n):
                    tx.append(one_row(t, row - i))
            return {"ok": True}
        except CommitFailedException:
            continue
    return {"ok": False}


def plain(v):
    if isinstance(v, dt.datetime):
        v = v if v.tzinfo else v.replace(tzinfo=dt.timezone.utc)
        return (v - EPOCH) // dt.timedelta(microseconds=1)
    return v


def lines(t):
    return [[plain(v) for v in r.values()] for r in t.to_pylist()]


def rows(table):
    t = catalog.load_table(table)
    return {"pyiceberg": lines(t.scan().to_arrow()), "duckdb": lines(duck().sql(f"SELECT * FROM iceberg_scan('{t.metadata_location}')").to_arrow_table())}


def numbers(table):
    t = catalog.load_table(table)
    n = t.scan(selected_fields=("n",)).to_arrow()["n"]
    least = pc.min_max(n)
    sql = f"SELECT count(*), count(DISTINCT n), min(n), max(n) FROM iceberg_scan('{t.metadata_location}')"
    return {"pyiceberg": [len(n), pc.count_distinct(n).as_py(), least["min"].as_py(), least["max"].as_py()], "duckdb": list(duck().sql(sql).fetchone())}


def data_files(t, snapshot, seen):
    """The data files that a snapshot names, with their sizes; manifests are read once."""
    out = {}
    for m in snapshot.manifests(t.io):
        if m.manifest_path not in seen:
            seen[m.manifest_path] = {e.data_file.file_path: e.data_file.file_size_in_bytes for e in m.fetch_manifest_entry(t.io, discard_deleted=True)}
        out.update(seen[m.manifest_path])
    return out


def there(t):
    root = t.location().removeprefix("s3://").rstrip("/")
    return {"s3://" + f.path: f.size for f in store.get_file_info(FileSelector(root, recursive=True)) if f.is_file}


def files(table):
    t = catalog.load_table(table)
    have, named, missing, manifests = there(t), {}, [], {}
    for s in t.metadata.snapshots:
        if s.manifest_list not in have:
            missing.append(f"{s.manifest_list} of snapshot {s.snapshot_id}")
            continue
        try:
            named.update(data_files(t, s, manifests))
        except FileNotFoundError as e:
            missing.append(f"a manifest of snapshot {s.snapshot_id}: {e}")
    for path, size in named.items():
        if have.get(path) != size:
            missing.append(f"{path}: {size} bytes named, {have.get(path)} there")
    orphans = [p for p in have if p.endswith(".parquet") and p not in named]
    expired = sum(1 for s in t.metadata.snapshots if s.summary and s.summary.operation != Operation.APPEND)
    return {"snapshots": len(t.metadata.snapshots), "sequence": t.metadata.last_sequence_number, "named": len(named), "missing": missing,
            "orphans": len(orphans), "other": expired}


def lose(table):
    t = catalog.load_table(table)
    path = next(iter(data_files(t, t.current_snapshot(), {})))
    store.delete_file(path.removeprefix("s3://"))
    return {"ok": True}


def answer_to(do, q):
    """A read is done again where the server has just closed the connection that was kept for it."""
    for left in reversed(range(5)):
        try:
            return {"append": append, "rows": rows, "numbers": numbers, "files": files, "lose": lose}[do](**q)
        except requests.exceptions.ConnectionError:
            if left == 0 or do not in ("rows", "numbers", "files"):
                raise


for line in sys.stdin:
    q = json.loads(line)
    do = q.pop("do")
    try:
        answer = answer_to(do, q)
    except Exception as e:
        answer = {"error": f"{do}: {type(e).__name__}: {e}"}
    print(json.dumps(answer), flush=True)
