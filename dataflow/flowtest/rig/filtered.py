"""Count an Iceberg table's rows by each value of one text column, with PyIceberg and DuckDB, by an equality filter.

The one argument is a JSON object: tools (folder of iceberg_readers.py), catalog, table, props (["k=v"]), column, counts
({value: rows}), null (rows without a value). Exit status 1 if any count differs.
"""
import glob, importlib, json, sys, warnings
from types import SimpleNamespace

warnings.filterwarnings("ignore")
ask = json.loads(sys.argv[1])
sys.path.insert(0, ask["tools"])
import iceberg_readers as readers

import duckdb
from pyiceberg.expressions import EqualTo, IsNull

props = dict(p.split("=", 1) for p in ask["props"] or [])
location = readers.locate(SimpleNamespace(metadata=None, warehouse=None, catalog=ask["catalog"], catalog_name="frazil", table=ask["table"]), props)
column = ask["column"]
wanted = [(value, rows) for value, rows in ask["counts"].items()] + [(None, ask["null"])]

con = duckdb.connect(config={"autoinstall_known_extensions": "false"})
for name in ("avro", "iceberg", "httpfs"):
    folder = list(importlib.import_module("duckdb_extension_" + name).__path__)[0]
    con.execute("LOAD '%s'" % glob.glob(f"{folder}/extensions/*/{name}.duckdb_extension")[0])
if location.startswith("s3://"):
    s3 = readers.s3(props)
    con.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{s3['access-key-id']}', SECRET '{s3['secret-access-key']}', REGION '{s3['region']}', "
                f"ENDPOINT '{s3['endpoint'].split('://')[1]}', URL_STYLE 'path', USE_SSL false)")
table = readers.static(location, props)


def by_pyiceberg(value):
    return table.scan(row_filter=IsNull(column) if value is None else EqualTo(column, value)).to_arrow().num_rows


def by_duckdb(value):
    test = "IS NULL" if value is None else "= '" + value.replace("'", "''") + "'"
    return con.sql(f"SELECT count(*) FROM iceberg_scan('{location}') WHERE \"{column}\" {test}").fetchone()[0]


wrong = 0
for name, count in (("pyiceberg", by_pyiceberg), ("duckdb", by_duckdb)):
    for value, rows in wanted:
        got = count(value)
        if got != rows:
            wrong += 1
            print(f"{name}: {got} rows where {column} is {value!r}, expected {rows}")
print(f"{len(wanted)} values of {column} counted by each reader, {wrong} wrong")
sys.exit(1 if wrong else 0)
