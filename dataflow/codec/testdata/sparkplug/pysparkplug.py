# Encodes a device's life with pysparkplug 0.6.1; prints "pysparkplug TOPIC HEX".
import pysparkplug as p
t = 1772359200000
D = p.DataType
def out(topic, payload):
    print("pysparkplug", topic, payload.encode().hex())
M = lambda name, dt, v, **k: p.Metric(timestamp=t, name=name, datatype=dt, value=v, **k)
out("spBv1.0/G2/NBIRTH/N2", p.NBirth(timestamp=t, seq=0, metrics=(M("bdSeq", D.INT64, 7), M("temp", D.INT32, -12, alias=1))))
out("spBv1.0/G2/DBIRTH/N2/D2", p.DBirth(timestamp=t, seq=1, metrics=(
    M("speed", D.INT16, -300, alias=20), M("on", D.BOOLEAN, True, alias=21), M("label", D.STRING, "a", alias=22),
    M("level", D.FLOAT, 0.5, alias=23), M("count", D.UINT64, 2**63-1, alias=24), M("at", D.DATETIME, __import__("datetime").datetime(2026,3,1,10,0,0,tzinfo=__import__("datetime").timezone.utc), alias=25))))
N = lambda alias, dt, v, **k: p.Metric(timestamp=t+500, name=None, datatype=dt, value=v, alias=alias, **k)
out("spBv1.0/G2/DDATA/N2/D2", p.DData(timestamp=t+500, seq=2, metrics=(N(20, D.INT16, -301), N(21, D.BOOLEAN, False), N(22, D.STRING, None, is_null=True), N(23, D.FLOAT, -0.25))))
out("spBv1.0/G2/NDATA/N2", p.NData(timestamp=t+500, seq=3, metrics=(N(1, D.INT32, -13),)))
out("spBv1.0/G2/DDEATH/N2/D2", p.DDeath(timestamp=t+600, seq=4))
out("spBv1.0/G2/NDEATH/N2", p.NDeath(timestamp=t, bd_seq_metric=M("bdSeq", D.INT64, 7)))
