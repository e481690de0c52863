package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// tableFormat is a format of tables that consist of data files and a log. Only the log
// lists the files that belong to the current table: the folder also contains files, or
// versions of rows, that were deleted or replaced.
type tableFormat struct {
	name string
	// mark returns the path of the log of a table in this folder, "" if it has none.
	mark func(folder string) string
	// export is a command that writes the current rows to rows.parquet. DIR is the folder
	// of the table, LOG the mark.
	export string
}

// tableFormats returns the known table formats.
func tableFormats() []tableFormat {
	return []tableFormat{
		{"Delta", logFolder("_delta_log"),
			`pip install deltalake; python3 -c "import deltalake as d; d.QueryBuilder().register('t', d.DeltaTable('DIR')).execute('copy (select * from t) to \'rows.parquet\' stored as parquet').read_all()"`},
		{"Iceberg", icebergMetadata,
			`pip install 'pyiceberg[pyarrow]'; python3 -c "import pyiceberg.table as t, pyarrow.parquet as p; p.write_table(t.StaticTable.from_metadata('LOG').scan().to_arrow(), 'rows.parquet')"`},
		{"Hudi", logFolder(".hoodie"),
			`pip install hudi pyarrow; python3 -c "import hudi, pyarrow as a, pyarrow.parquet as p; p.write_table(a.Table.from_batches(hudi.HudiTableBuilder.from_base_uri('DIR').build().read()), 'rows.parquet')"`},
		{"Paimon", paimonSnapshot,
			`pip install pypaimon; python3 -c "import pyarrow.parquet as p; from pypaimon.table.file_store_table import FileStoreTable as F; b = F.from_path('DIR').new_read_builder(); p.write_table(b.new_read().to_arrow(b.new_scan().plan().splits()), 'rows.parquet')"`},
		{"Lance", logFolder("_versions"),
			`pip install pylance pyarrow; python3 -c "import lance as l, pyarrow.parquet as p; p.write_table(l.dataset('DIR').to_table(), 'rows.parquet')"`},
		{"Spark streaming", logFolder("_spark_metadata"),
			`pip install pyspark; python3 -c "from pyspark.sql import SparkSession as S; S.builder.getOrCreate().read.format('FORMAT').load('DIR').write.parquet('rows.parquet')"`},
	}
}

// logFolder recognises a table by a folder.
func logFolder(name string) func(string) string {
	return func(folder string) string {
		log := filepath.Join(folder, name)
		if info, err := os.Stat(log); err != nil || !info.IsDir() {
			return ""
		}
		return log
	}
}

// paimonSnapshot recognises a table by its snapshots and manifests.
func paimonSnapshot(folder string) string {
	for _, name := range []string{"schema/schema-0", "manifest"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return ""
		}
	}
	return logFolder("snapshot")(folder)
}

// icebergMetadata returns the newest file of metadata, such as v3.metadata.json or
// 00003-UUID.metadata.json.
func icebergMetadata(folder string) (newest string) {
	last := -1
	entries, _ := os.ReadDir(filepath.Join(folder, "metadata")) // usually there is none
	for _, e := range entries {
		if n := icebergVersion(e.Name()); n > last {
			newest, last = filepath.Join(folder, "metadata", e.Name()), n
		}
	}
	return newest
}

// icebergVersion returns the number in the name of a metadata file, -1 for other names.
func icebergVersion(name string) int {
	stem, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".metadata.json")
	if !ok {
		return -1
	}
	stem = strings.TrimSuffix(stem, ".gz")
	if hadoop, ok := strings.CutPrefix(stem, "v"); ok {
		stem = hadoop
	} else if stem, _, ok = strings.Cut(stem, "-"); !ok {
		return -1
	}
	if n, err := strconv.ParseUint(stem, 10, 31); err == nil {
		return int(n)
	}
	return -1
}

// fault returns the error for a file or folder of a table.
func (t tableFormat) fault(name, root, log string) error {
	if t.name == "Delta" {
		return inside(name, root)
	}
	where := "belongs to"
	if abs, err := filepath.Abs(name); err == nil && abs == root {
		where = "is"
	}
	return fmt.Errorf("%s %s the %s table %s, whose folder also contains rows that the table no longer has; %s",
		name, where, t.name, root, t.advice(root, log))
}

// advice returns the command that exports the current rows.
func (t tableFormat) advice(root, log string) string {
	command := strings.ReplaceAll(t.export, "FORMAT", sinkFormat(log))
	if !strings.ContainsAny(root, "'\"\\$`") {
		command = strings.NewReplacer("DIR", root, "LOG", log).Replace(command)
	}
	return "export the current rows and name rows.parquet instead: " + command
}

// sinkFormat returns the format of the files that a log of Spark lists.
func sinkFormat(log string) string {
	names, _ := filepath.Glob(filepath.Join(log, "[0-9]*")) // none, if the log is another one
	for _, name := range names[:min(1, len(names))] {
		head, _ := startOf(name) // a log that cannot be read has no format
		for _, format := range []string{"csv", "json", "orc", "avro"} {
			if bytes.Contains(head, []byte("."+format)) {
				return format
			}
		}
	}
	return "parquet"
}

// outside returns an error if a file or folder belongs to a table: if its folder, or one
// above, contains the log of a table. A folder that is reached through a link is checked at both
// ends.
func (r *resolver) outside(name, folder string) error {
	if r.plain[folder] {
		return nil
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil && real != folder {
		if err := r.inTable(name, real); err != nil {
			return err
		}
	}
	return r.inTable(name, folder)
}

// inTable returns an error if a folder, or one above, has the log of a table. It looks at
// each folder once.
func (r *resolver) inTable(name, folder string) error {
	at, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	passed := []string{folder}
	for ; !r.plain[at]; at = filepath.Dir(at) {
		for _, t := range tableFormats() {
			if log := t.mark(at); log != "" {
				return t.fault(name, at, log)
			}
		}
		if passed = append(passed, at); at == filepath.Dir(at) {
			break
		}
	}
	if r.plain == nil {
		r.plain = map[string]bool{}
	}
	for _, p := range passed {
		r.plain[p] = true
	}
	return nil
}

// inside is the error for a file or folder in a Delta table.
func inside(name, root string) error {
	return fmt.Errorf("%s belongs to the Delta table %s, whose folder also contains rows that the table no longer has; name the folder of the table, whose log lists its current files (data.follow and data.hosts: each cannot read it)",
		name, root)
}

// startOf returns the first bytes of a local file.
func startOf(path string) ([]byte, error) {
	h, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	head := make([]byte, headBytes)
	n, err := h.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}
