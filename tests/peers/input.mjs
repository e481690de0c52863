// Reads all columns of a file in Criteo's layout again and again, on one thread, and prints
// the rows per second. Arguments: duckdb or polars, the file, and seconds.
//
// DuckDB computes a sum of logarithms of each number and an xor of hashes of each string,
// about what a reader computes of them. Polars makes a table in memory of the values.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.MODULES}/`);
const [, , library, file, time] = process.argv;
const parquet = file.endsWith('.parquet');
const numbers = [...Array(13).keys()].map(i => `I${i + 1}`);
const strings = [...Array(26).keys()].map(i => `C${i + 1}`);

async function duckdb() {
  const { DuckDBInstance } = require('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect();
  const columns = [...['label', ...numbers].map(n => `'${n}': 'FLOAT'`), ...strings.map(n => `'${n}': 'VARCHAR'`)];
  const from = parquet ? `read_parquet('${file}')` : `read_csv('${file}', delim='\t', header=false, auto_detect=false, quote='', escape='', columns={${columns}})`;
  const values = ['count(*)', 'sum(label)', ...numbers.map(n => `sum(ln(1 + greatest(${n}, 0)))`), ...strings.map(n => `bit_xor(hash(${n}))`)];
  return async () => Number((await connection.runAndReadAll(`select ${values} from ${from}`)).getRows()[0][0]);
}

function polars() {
  const pl = require('nodejs-polars');
  return () => (parquet ? pl.readParquet(file) : pl.readCSV(file, { sep: '\t', hasHeader: false })).height;
}

const read = await { duckdb, polars }[library]();
await read();
let rows = 0;
const start = performance.now();
while (performance.now() - start < 1000 * time) rows += await read();
console.log(Math.round(1000 * rows / (performance.now() - start)));
