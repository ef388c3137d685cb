// Encodes a node's life with sparkplug-payload of Eclipse Tahu; prints "TOPIC HEX".
const sp = require('sparkplug-payload').get('spBv1.0');
const t = 1772359200000;
const out = (topic, p) => console.log('tahu ' + topic + ' ' + Buffer.from(sp.encodePayload(p)).toString('hex'));
out('spBv1.0/G1/NBIRTH/N1', {timestamp: t, seq: 0, metrics: [
  {name: 'bdSeq', type: 'UInt64', value: 3, timestamp: t},
  {name: 'Node Control/Rebirth', type: 'Boolean', value: false, timestamp: t},
  {name: 'temp', alias: 1, type: 'Int32', value: -12, timestamp: t},
  {name: 'small', alias: 2, type: 'Int8', value: -5, timestamp: t},
  {name: 'short', alias: 3, type: 'Int16', value: -300, timestamp: t},
  {name: 'big', alias: 4, type: 'Int64', value: -9007199254740991, timestamp: t},
  {name: 'u8', alias: 5, type: 'UInt8', value: 250, timestamp: t},
  {name: 'u32', alias: 6, type: 'UInt32', value: 4000000000, timestamp: t},
  {name: 'f', alias: 7, type: 'Float', value: 1.5, timestamp: t},
  {name: 'd', alias: 8, type: 'Double', value: -2.25, timestamp: t},
  {name: 'b', alias: 9, type: 'Boolean', value: true, timestamp: t},
  {name: 's', alias: 10, type: 'String', value: '', timestamp: t},
  {name: 'when', alias: 11, type: 'DateTime', value: t + 123, timestamp: t},
  {name: 'raw', alias: 12, type: 'Bytes', value: Buffer.from([0, 255, 1]), timestamp: t},
  {name: 'id', alias: 13, type: 'UUID', value: 'a9b9c1f0-0000-4000-8000-000000000001', timestamp: t},
]});
out('spBv1.0/G1/NDATA/N1', {timestamp: t + 1000, seq: 1, metrics: [
  {alias: 1, type: 'Int32', value: -13, timestamp: t + 1000},
  {alias: 4, type: 'Int64', value: -1, timestamp: t + 1001},
  {alias: 8, type: 'Double', value: NaN, timestamp: t + 1000},
  {alias: 10, type: 'String', value: 'größe', timestamp: t + 1000, isHistorical: true},
  {alias: 7, type: 'Float', value: null, isNull: true, timestamp: t + 1000},
]});
