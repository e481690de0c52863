// Writes types.csv and the Parquet files of the same table:
//
//   npm install @duckdb/node-api && node make.mjs
import { DuckDBInstance } from '@duckdb/node-api';
const c = await (await DuckDBInstance.create(':memory:')).connect();
await c.run(`set timezone = 'UTC'`);
const columns = {
  bool: ['boolean', 'true', 'false', 'true'],
  i8: ['tinyint', '-5', '-128', '127'], u8: ['utinyint', '200', '0', '255'],
  i16: ['smallint', '-300', '-32768', '32767'], u16: ['usmallint', '60000', '0', '65535'],
  i32: ['integer', '-70000', '-2147483648', '2147483647'], u32: ['uinteger', '4000000000', '0', '4294967295'],
  i64: ['bigint', '-9007199254740993', '-9223372036854775808', '9223372036854775807'],
  u64: ['ubigint', '7', '0', '18446744073709551615'], id: ['ubigint', '1', '2', '3'],
  d4: ['decimal(4,2)', '22.96', '-0.05', '99.99'], d9: ['decimal(9,3)', '22.9', '-0.05', '999999.999'],
  d18: ['decimal(18,4)', '12345678.9', '-0.0001', '99999999999999.9999'],
  d38: ['decimal(38,2)', '-1234567890123456789.01', '0', '999999999999999999999999999999999999.99'],
  d0: ['decimal(9,0)', '5', '-5', '0'],
  f32: ['float', '0.1', '16777216', '1e-7'], f32_wide: ['float', '134217728', '-3.4e38', '1e10'],
  f64: ['double', '1', '1234567.5', '1e-5'], f64_wide: ['double', '1e15', '1e16', "'-0.0'"], f64_odd: ['double', "'nan'", "'inf'", "'-inf'"],
  date: ['date', "'2024-05-01'", "'1969-12-31'", "'9999-12-31'"], date_odd: ['date', "'infinity'", "'-infinity'", "'0044-03-15 (BC)'"],
  time: ['time', "'12:34:56.789'", "'00:00:00.000001'", "'23:59:59'"], time_tz: ['timetz', "'12:34:56+00'", "'01:02:03.5+00'", "'00:00:00+00'"],
  ts: ['timestamp', "'2024-05-01 12:34:56.789012'", "'1969-12-31 23:59:59.5'", "'2024-05-01'"],
  ts_s: ['timestamp_s', "'2024-05-01 12:34:56'", "'1900-01-01'", "'2024-05-01'"], ts_ms: ['timestamp_ms', "'2024-05-01 12:34:56.789'", "'1969-12-31 23:59:59.5'", "'2024-05-01'"],
  ts_ns: ['timestamp_ns', "'2024-05-01 12:34:56.789012345'", "'1969-12-31 23:59:59.5'", "'2024-05-01'"],
  ts_tz: ['timestamptz', "'2024-05-01 12:34:56+02'", "'1969-12-31 23:59:59.5+00'", "'2024-05-01 00:00:00+00'"],
  ts_odd: ['timestamp', "'infinity'", "'-infinity'", "'0044-03-15 (BC) 01:02:03'"],
  uuid: ['uuid', "'00112233-4455-6677-8899-aabbccddeeff'", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
  interval: ['interval', "'1 month 2 days 3 hours 4.5 seconds'", "'14 months'", "'0 days'"],
  blob: ['blob', "'\\x00\\xFFab'", "'plain'", "'\\x80'"], text: ['varchar', "'a,b'", "'é\"q'", "'x y'"],
  enum: ["enum('x', 'y')", "'x'", "'y'", "'x'"], json: ['json', `'{"a": 1}'`, `'[1, 2]'`, `'"s"'`],
};
const names = Object.keys(columns);
await c.run(`create table t (y integer, ${names.map(n => `"${n}" ${columns[n][0]}`)}, st struct(a integer, b struct(c varchar)))`);
for (const row of [1, 2, 3]) {
  const values = names.map(n => `cast(${columns[n][row]} as ${columns[n][0]})`);
  await c.run(`insert into t select ${row % 2}, ${values}, {'a': ${row}, 'b': {'c': 'x${row}'}}`);
}
await c.run('insert into t (y) values (0)');
const flat = `select * exclude (st), st.a as "st.a", st.b.c as "st.b.c" from t`;
await c.run(`copy (${flat}) to 'types.csv' (header)`);
await c.run(`copy t to 'types.parquet' (format parquet)`);
// Without columns whose differences exceed 2^31: DuckDB packs them in more than 32 bits,
// which parquet-go does not read.
await c.run(`copy (select * exclude (u32, i32, date_odd) from t) to 'types_v2.parquet' (format parquet, parquet_version 'V2', codec 'lz4_raw')`);
await c.run(`copy (select 1 as y, map {'k': 1} as m, [[1], [2]] as ll, [{'a': 1}] as ls, {'m': map {'k': 1}, 'n': 5} as st, [1, 2] as li, [1.50, 2] as ld, [date '2024-05-01', null] as la)
  to 'nested.parquet' (format parquet)`);
