package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/data/arrow"
	"github.com/wdlrun/wdlrun/internal/data/avro"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
)

// foreign is a kind of files that no format of records has, or that only another data.format
// reads.
type foreign struct {
	kind   string
	format string // the data.format that reads it; "": none
	magics []string
	at     int64 // offset of the magics; negative: from the end of a file that is not text
	advice string
}

// toParquet returns the advice to run a command of Python that writes rows.parquet. In the command,
// FILE is replaced.
func toParquet(packages, command string) string {
	return fmt.Sprintf(`convert it and name rows.parquet instead: pip install %s; python3 -c "%s"`, packages, command)
}

const (
	packedColumns = "pandas pyarrow"
	fromUTF16     = "convert it first (iconv -f UTF-16 -t UTF-8 FILE > NEW)"
)

// foreigners returns the known kinds of files.
var foreigners = sync.OnceValue(func() []foreign {
	return []foreign{
		{kind: "Parquet", format: "parquet", magics: []string{"PAR1"}, advice: "set data.format: parquet, or name files of one format"},
		{kind: "encrypted Parquet", magics: []string{"PARE"}, advice: "decrypt it with the program that holds the keys, which one command does for files with one key: " +
			`pip install duckdb; python3 -c "import duckdb as d; d.sql('pragma add_parquet_key(\'k\', \'KEY\'); copy (from read_parquet(\'FILE\', encryption_config = {footer_key: \'k\'})) to \'rows.parquet\'')"`},
		{kind: "Avro", format: "avro", magics: []string{avro.Magic}, advice: "set data.format: avro, or name files of one format"},
		{kind: "Arrow IPC", format: "arrow", magics: []string{arrow.Magic, "\xff\xff\xff\xff???\x00"}, advice: "set data.format: arrow, or name files of one format"},
		{kind: "Feather version 1", magics: []string{"FEA1"}, advice: toParquet("pyarrow==26.0.1",
			"import pyarrow.feather as f, pyarrow.parquet as p; p.write_table(f.read_table('FILE'), 'rows.parquet')")},
		{kind: "ORC", magics: []string{"ORC"}, at: -4, advice: toParquet("pyarrow",
			"import pyarrow.dataset as d, pyarrow.parquet as p; p.write_table(d.dataset('FILE', format='orc', partitioning='hive').to_table(), 'rows.parquet')") + "; for all files of a folder, name the folder in the command"},
		{kind: "Lance", magics: []string{"LANC"}, at: -4, advice: toParquet("pylance pyarrow",
			"import lance.file as l, pyarrow.parquet as p; p.write_table(l.LanceFileReader('FILE').read_all().to_table(), 'rows.parquet')")},
		{kind: "a Hadoop SequenceFile", magics: []string{"SEQ\x04", "SEQ\x05", "SEQ\x06"}, advice: "write its values as lines of text and name the folder rows instead: " +
			`pip install pyspark; python3 -c "from pyspark import SparkContext as S; S().sequenceFile('FILE').values().saveAsTextFile('rows')"`},
		{kind: "RCFile", magics: []string{"RCF\x01"}, advice: "write it as Parquet with Hive"},
		{kind: "an array of NumPy", magics: []string{"\x93NUMPY"}, advice: toParquet(packedColumns,
			"import numpy as n, pandas as p; p.DataFrame(n.load('FILE')).add_prefix('c').to_parquet('rows.parquet')")},
		{kind: "a pickle of Python", magics: []string{"\x80\x02}", "\x80\x02]", "\x80\x02c", "\x80\x02(", "\x80\x03}", "\x80\x03]", "\x80\x03c", "\x80\x03(", "\x80\x04\x95", "\x80\x05\x95"},
			advice: "if it is of a source that you trust (a pickle can run any code), " + toParquet(packedColumns, "import pandas as p; p.DataFrame(p.read_pickle('FILE')).to_parquet('rows.parquet')")},
		{kind: "HDF5", magics: []string{"\x89HDF\r\n\x1a\n"}, advice: toParquet("h5py "+packedColumns,
			"import h5py, pandas as p; p.DataFrame({k: v[:] for k, v in h5py.File('FILE').items()}).to_parquet('rows.parquet')") + "; for a file of pandas, p.read_hdf('FILE') (pip install tables)"},
		{kind: "a database of SQLite", magics: []string{"SQLite format 3\x00"}, advice: toParquet(packedColumns,
			"import sqlite3, pandas as p; p.read_sql('select * from TABLE', sqlite3.connect('FILE')).to_parquet('rows.parquet')")},
		{kind: "a database of DuckDB", magics: []string{"DUCK"}, at: 8, advice: toParquet("duckdb",
			"import duckdb as d; d.connect('FILE', read_only=True).table('TABLE').write_parquet('rows.parquet')")},
		{kind: "a tar archive", magics: []string{"ustar"}, at: 257, advice: "unpack it first (tar -xf FILE)"},
		{kind: "a zip archive", magics: []string{"PK\x03\x04"}, advice: "unpack it first (unzip FILE)"},
		{kind: "a 7z archive", magics: []string{"7z\xbc\xaf\x27\x1c"}, advice: "unpack it first"},
		{kind: "xz", magics: []string{"\xfd7zXZ\x00"}, advice: "unpack it first (unxz FILE)"},
		{kind: "UTF-16 text", magics: []string{"\xff\xfe", "\xfe\xff"}, advice: fromUTF16},
	}
})

// zips are the kinds of zip files, by a name in the beginning of the file.
func zips() []foreign {
	return []foreign{
		{kind: "a workbook of Excel", magics: []string{"xl/"}, advice: toParquet("openpyxl "+packedColumns,
			"import pandas as p; p.read_excel('FILE').to_parquet('rows.parquet')")},
		{kind: "arrays of NumPy (npz)", magics: []string{".npy"}, advice: toParquet(packedColumns,
			"import numpy as n, pandas as p; p.DataFrame(dict(n.load('FILE'))).to_parquet('rows.parquet')")},
		{kind: "a file of PyTorch", magics: []string{"/data.pkl"}, advice: "write its columns as Parquet with the program that reads it"},
	}
}

// is reports whether a file, which begins with head and ends with tail, is of this kind.
func (k *foreign) is(head, tail []byte) bool {
	b := head
	if k.at < 0 {
		b = tail[max(0, int64(len(tail))+k.at):]
	} else {
		b = b[min(k.at, int64(len(b))):]
	}
	return slices.ContainsFunc(k.magics, func(m string) bool { return isMagic(b, m) }) &&
		(k.at >= 0 || bytes.ContainsFunc(head, func(c rune) bool { return c < '\t' }))
}

// foreign returns the error for a file of a kind that this format is not.
func (f *File) foreign(format string, src Content, head []byte) error {
	if format == "tfrecord" && len(head) >= tfrecord.HeaderBytes {
		if _, err := tfrecord.Header(head[:tfrecord.HeaderBytes]); err == nil {
			return nil
		}
	}
	tail, err := f.tail(src, head)
	if err != nil {
		return err
	}
	for _, k := range foreigners() {
		if !k.is(head, tail) || k.format == format && format != "" {
			continue
		}
		if k.kind == "a zip archive" {
			k = zipKind(k, head)
		}
		return fmt.Errorf("%s is %s, not %s; %s", f.Name, k.kind, format, inName(k.advice, f.Name))
	}
	return nil
}

// zipKind returns what a zip file contains, or k if that is not known.
func zipKind(k foreign, head []byte) foreign {
	for _, z := range zips() {
		for _, m := range z.magics {
			if bytes.Contains(head, []byte(m)) {
				return z
			}
		}
	}
	return k
}

// inName replaces FILE in an advice by a name that no shell and no program interprets.
func inName(advice, name string) string {
	if strings.ContainsAny(name, "'\"\\$`; ()&|<>*?") {
		return advice
	}
	return strings.ReplaceAll(advice, "FILE", name)
}

// tail returns the last bytes of a file that is not packed.
func (f *File) tail(src Content, head []byte) ([]byte, error) {
	const length = 4
	if f.Packing != nil || f.Log != nil || f.size < length || f.ofStream != nil {
		return nil, nil
	}
	if int64(len(head)) == f.size {
		return head[len(head)-length:], nil
	}
	b := make([]byte, length)
	if _, err := src.ReadAt(b, f.size-length); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return b, nil
}

// Begin reads the start of a file: it finds the packing, rejects files that cannot have
// the format and skips the byte order mark.
func (f *File) Begin(format string) error {
	src, err := f.begin(format)
	if err != nil {
		return err
	}
	return src.Close()
}

// begin is Begin of a file that stays open.
func (f *File) begin(format string) (src Content, err error) {
	f.Packing = nil
	if src, err = f.Open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			src.Close()
		}
	}()
	head, err := f.start(src, headBytes)
	if err != nil {
		return src, err
	}
	if f.Packing, err = packingOf(f.Name, head); err != nil {
		return src, err
	}
	if f.Packing != nil {
		f.size, src = unknownSize, f.unpacked(src)
		if head, err = f.start(src, headBytes); err != nil {
			return src, err
		}
	}
	if err = f.judge(format, src, head); err == nil && int64(len(head)) == f.size { // it is not read again
		return memory{bytes.NewReader(head)}, src.Close()
	}
	return src, err
}

// judge rejects a file that cannot have the format, and skips the byte order mark.
func (f *File) judge(format string, src Content, head []byte) error {
	if err := f.foreign(format, src, head); err != nil {
		return err
	}
	switch text := !schema.IsTyped(format) && format != "tfrecord"; {
	case text && carriageReturns(head):
		return fmt.Errorf("%s: its lines end only in CR; convert it first (tr '\\r' '\\n' < FILE > NEW)", f.Name)
	case text && wideCharacters(head):
		return fmt.Errorf("%s is UTF-16 text, not %s; %s", f.Name, format, inName(fromUTF16, f.Name))
	}
	if strings.HasPrefix(string(head), BOM) {
		f.mark = int64(len(BOM))
		f.body = f.mark
	}
	return nil
}

// wideCharacters reports whether a text begins with ASCII in UTF-16 without a byte order
// mark.
func wideCharacters(head []byte) bool {
	return len(head) > 3 && (head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0 || head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0)
}

// carriageReturns reports whether lines end in CR without LF.
func carriageReturns(head []byte) bool {
	return bytes.IndexByte(head, '\n') < 0 && bytes.Count(head, []byte{'\r'}) > 1
}
