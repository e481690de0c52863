package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Files of formats that are not read are named, with the command that converts them.
func TestForeignFilesAreNamed(t *testing.T) {
	zeros := strings.Repeat("\x00", 300)
	for _, x := range []struct{ content, kind, advice string }{
		{"ORC\n\x07\x12" + zeros + "ORC\x18", "ORC", "d.dataset('clicks', format='orc'"},
		{"\x10\x01\x00\x00" + zeros + "LANC", "Lance", "LanceFileReader('clicks')"},
		{"PARE" + zeros, "encrypted Parquet", "encryption_config"},
		{"FEA1" + zeros, "Feather version 1", "f.read_table('clicks')"},
		{"SEQ\x06\x19org.apache", "a Hadoop SequenceFile", "sequenceFile('clicks')"},
		{"RCF\x01" + zeros, "RCFile", "Hive"},
		{"\x93NUMPY\x01\x00", "an array of NumPy", "n.load('clicks')"},
		{"PK\x03\x04" + zeros[:26] + "click.npy", "arrays of NumPy (npz)", "n.load('clicks')"},
		{"PK\x03\x04" + zeros[:26] + "docProps/app.xml" + zeros + "xl/workbook.xml", "a workbook of Excel", "read_excel('clicks')"},
		{"PK\x03\x04" + zeros[:26] + "rows.csv", "a zip archive", "unzip clicks"},
		{"\x80\x04\x95\x46\x1e" + zeros, "a pickle of Python", "read_pickle('clicks')"},
		{"\x80\x02}q\x00X", "a pickle of Python", "any code"},
		{"\x89HDF\r\n\x1a\n" + zeros, "HDF5", "h5py.File('clicks')"},
		{"SQLite format 3\x00" + zeros, "a database of SQLite", "sqlite3.connect('clicks')"},
		{"\x01\x02\x03\x04\x05\x06\x07\x08DUCK" + zeros, "a database of DuckDB", "d.connect('clicks'"},
		{"rows.csv" + zeros[:249] + "ustar\x00", "a tar archive", "tar -xf clicks"},
		{"\xfd7zXZ\x00\x00", "xz", "unxz clicks"},
	} {
		t.Chdir(t.TempDir())
		fatal.If(t, os.WriteFile("clicks", []byte(x.content), 0o600))
		for _, format := range []string{"csv", "jsonl", "tfrecord", "parquet", "libsvm"} {
			_, err := OpenSet(schema.Source{Format: format, Header: format == "csv"}, []string{"clicks"})
			if err == nil || !strings.HasPrefix(err.Error(), "clicks is "+x.kind+", not "+format+"; ") || !strings.Contains(err.Error(), x.advice) {
				t.Errorf("%q as %s: %v", x.content[:6], format, err)
			}
		}
	}
	for _, text := range []string{"ORC,a\n1,2\nORC", "LANC,a\n1,LANC", "code\nORC\n"} {
		if _, err := OpenSet(schema.Source{Header: true}, []string{datatest.Write(t, "airports.csv", text)}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The files are those that Spark 4.3 writes of one table.
func TestPackingsOfSpark(t *testing.T) {
	want := "click,user,price\n"
	for i := range 40 {
		price := fmt.Sprint(float64(i) / 4)
		if i%4 == 0 {
			price += ".0"
		}
		want += fmt.Sprintf("%d,u%d,%s\n", i%3, i%5, price)
	}
	for _, packing := range []string{"bz2", "deflate", "gz", "lz4", "snappy"} {
		files, err := Resolve([]string{"testdata/spark.csv." + packing})
		fatal.If(t, err)
		fatal.If(t, files[0].FindPacking())
		if got, err := files[0].Read(1 << 12); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", packing, got, err)
		}
	}
}

// gzip ignores zeros behind a member.
func TestGzipPaddedWithZeros(t *testing.T) {
	member := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := io.WriteString(w, text)
		fatal.If(t, errors.Join(err, w.Close()))
		return b.String()
	}
	zeros := strings.Repeat("\x00", 700)
	content := member("click,age\n") + zeros + member("") + member("1,23\n") + zeros
	files, err := Resolve([]string{datatest.Write(t, "a.csv.gz", content)})
	fatal.If(t, err)
	fatal.If(t, files[0].FindPacking())
	if got, err := files[0].Read(100); err != nil || string(got) != "click,age\n1,23\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{content + "x", content[:len(content)-len(zeros)-3]} {
		files, err := Resolve([]string{datatest.Write(t, "a.csv.gz", bad)})
		fatal.If(t, err)
		fatal.If(t, files[0].FindPacking())
		if got, err := files[0].Read(100); err == nil {
			t.Errorf("%q of a damaged file", got)
		}
	}
}

// FuzzPackings: a damaged file is an error.
func FuzzPackings(f *testing.F) {
	for i, packing := range []string{"gz", "bz2", "deflate", "snappy", "lz4"} {
		b, err := os.ReadFile("testdata/spark.csv." + packing)
		fatal.If(f, err)
		f.Add(i, b)
	}
	names := []string{"a.gz", "a.bz2", "a.deflate", "a.snappy", "a.lz4", "a.zst", "a.sz", "a"}
	f.Fuzz(func(_ *testing.T, i int, b []byte) {
		p, err := packingOf(names[uint(i)%uint(len(names))], b)
		if err != nil || p == nil {
			return
		}
		r, err := p.open(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = io.CopyN(io.Discard, r, 1<<20) // an error is expected
	})
}
