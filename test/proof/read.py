"""Reads Iceberg tables with PyIceberg and with DuckDB, which must agree, and prints their
rows: one JSON object a line, {"table": NAME, "row": {...}}. Numbers stay numbers, times are
microseconds since 1970, decimals text, bytes hex. A table that is not there has no rows.

Asked by one JSON object on standard input: catalog (sqlite:///FILE or a URI), props, tables.
"""
import glob, importlib, json, sys
from collections import Counter

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError


def plain(v):
    return v.hex() if isinstance(v, bytes) else v if isinstance(v, (int, str, bool, type(None))) else str(v)


def rows(table):
    columns = []
    for c in table.columns:
        if pa.types.is_timestamp(c.type):
            c = c.cast(pa.timestamp("us", c.type.tz)).cast(pa.int64())
        columns.append([plain(v) for v in c.to_pylist()])
    return [json.dumps(dict(zip(table.column_names, r)), sort_keys=True) for r in zip(*columns)]


def duck(props):
    import duckdb
    con = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for e in ["avro", "iceberg", "httpfs"]:
        d = list(importlib.import_module("duckdb_extension_" + e).__path__)[0]
        con.execute("LOAD '%s'" % glob.glob(f"{d}/extensions/*/{e}.duckdb_extension")[0])
    con.execute("SET TimeZone='UTC'")
    con.execute("SET threads=1")
    if "s3.endpoint" in props:
        con.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{props['s3.access-key-id']}', SECRET '{props['s3.secret-access-key']}', REGION 'us-east-1', "
                    f"ENDPOINT '{props['s3.endpoint'].split('://')[1]}', URL_STYLE 'path', USE_SSL false)")
    return con


def main():
    ask = json.load(sys.stdin)
    props = ask.get("props") or {}
    rest = ask["catalog"].startswith("http")
    catalog = load_catalog("local", **{"type": "rest" if rest else "sql", "uri": ask["catalog"], **props})
    con = duck(props)
    for name in ask["tables"]:
        try:
            table = catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            continue
        got = rows(table.scan().to_arrow())
        if table.current_snapshot():
            other = rows(con.sql(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table())
            if Counter(got) != Counter(other):
                sys.exit(f"{name}: PyIceberg reads {len(got)} rows and DuckDB {len(other)}, not the same ones: "
                         f"{list((Counter(got) - Counter(other)).items())[:3]} and {list((Counter(other) - Counter(got)).items())[:3]}")
        for r in got:
            print('{"table": %s, "row": %s}' % (json.dumps(name), r))


main()
